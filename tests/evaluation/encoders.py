"""A dual encoder for tests: unit vectors by hash of the content, and a count of what it was given."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt


class CountingEncoder:
    """Embeds any content in ``width`` dimensions; ``alike`` maps texts to the text they equal."""

    def __init__(
        self, name: str = "counting", width: int = 16, alike: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.width, self.alike = width, alike or {}
        self.images: list[bytes] = []
        self.texts: list[str] = []

    def encode_images(self, images: Sequence[bytes], batch: int) -> npt.NDArray[np.float32]:
        self.images += images
        return self._vectors(images)

    def encode_texts(self, texts: Sequence[str], batch: int) -> npt.NDArray[np.float32]:
        self.texts += texts
        return self._vectors([self.alike.get(t, t).encode() for t in texts])

    def _vectors(self, items: Sequence[bytes]) -> npt.NDArray[np.float32]:
        rows = np.zeros((len(items), self.width), np.float32)
        for row, item in zip(rows, items, strict=True):
            seed = int.from_bytes(hashlib.sha256(item).digest()[:8])
            row[:] = np.random.default_rng(seed).normal(size=self.width)
            row /= np.linalg.norm(row)
        return rows
