"""Models for tests: vectors and scores by hash of the content, and a count of what they were given.

The fixture ``families`` of conftest.py makes them known as families ``counting`` (a dual encoder; target:
its width) and ``matching`` (a matcher). ``opened`` holds the last one that was opened, by spec name.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from caramel.interfaces.model import Family, Form, Loader

opened: dict[str, "CountingEncoder | CountingMatcher"] = {}


class CountingEncoder:
    """Embeds any content in ``width`` dimensions; ``alike`` maps texts to the text they equal."""

    def __init__(
        self, name: str = "counting", width: int = 16, alike: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.width, self.alike = width, alike or {}
        self.identity = {"family": "counting", "width": width, "alike": dict(self.alike)}
        self.images: list[bytes] = []
        self.texts: list[str] = []

    def encode_images(self, images: Sequence[bytes], batch: int | None) -> npt.NDArray[np.float32]:
        self.images += images
        return self._vectors(images)

    def encode_texts(self, texts: Sequence[str], batch: int | None) -> npt.NDArray[np.float32]:
        self.texts += texts
        return self._vectors([self.alike.get(t, t).encode() for t in texts])

    def _vectors(self, items: Sequence[bytes]) -> npt.NDArray[np.float32]:
        rows = np.zeros((len(items), self.width), np.float32)
        for row, item in zip(rows, items, strict=True):
            row[:] = np.random.default_rng(_seed(item)).normal(size=self.width)
            row /= np.linalg.norm(row)
        return rows


class CountingMatcher:
    """Scores any pair by its content, coarsely, so that there are ties."""

    def __init__(self, name: str = "matching", steps: int = 8) -> None:
        self.name, self.steps = name, steps
        self.identity = {"family": "matching", "steps": steps}
        self.pairs: list[tuple[bytes, str]] = []

    def match_pairs(self, images, texts, image_of, text_of, batch):  # type: ignore[no-untyped-def]
        rows = [(images[i], texts[t]) for i, t in zip(image_of, text_of, strict=True)]
        self.pairs += rows
        return np.array([self.score(image, text) for image, text in rows])

    def score(self, image: bytes, text: str) -> float:
        return _seed(image + text.encode()) % self.steps / self.steps


def _seed(item: bytes) -> int:
    return int.from_bytes(hashlib.sha256(item).digest()[:8])


def counting(target: str, *, device: str, precision: str, name: str) -> CountingEncoder:
    """The family ``counting``: ``counting:16``."""
    opened[name] = CountingEncoder(name, int(target))
    return opened[name]  # type: ignore[return-value]


def matching(target: str, *, device: str, precision: str, name: str) -> CountingMatcher:
    """The family ``matching``: ``matching:8``."""
    opened[name] = CountingMatcher(name, int(target))
    return opened[name]  # type: ignore[return-value]


def family(name: str, load: Loader, form: Form = "dual") -> Family:
    """A family of which nothing is missing."""
    return Family(name, form, "TARGET", "of a test", load, lambda target: [])


COUNTING = family("counting", counting)
MATCHING = family("matching", matching, "matcher")
