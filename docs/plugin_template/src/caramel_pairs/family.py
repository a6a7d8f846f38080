"""A model family without weights: an image and a text fit if the text names the image's colors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import ImageColor

from caramel.errors import BackendError
from caramel.interfaces.model import Embeddings, Family, Floats, Identity
from caramel_pairs.colors import find_color_words, measure_colors

NONE = 0.01  # a last coordinate, so that a text without a color has a vector, too


@dataclass(frozen=True)
class ColorModel:
    """A ``DualEncoder``: shares of colors, and color words, as unit vectors with one coordinate per color."""

    name: str
    colors: tuple[str, ...]

    @property
    def identity(self) -> Identity:
        """What determines its vectors besides the code of this package, which caramel hashes itself."""
        return {"family": "colors", "colors": list(self.colors)}

    def encode_images(self, images: Sequence[bytes], batch_size: int | None) -> Embeddings:
        """Return unit vectors of encoded images, (n, d)."""
        return _normalize([measure_colors(image, self.colors) for image in images], len(self.colors))

    def encode_texts(self, texts: Sequence[str], batch_size: int | None) -> Embeddings:
        """Return unit vectors of texts, (n, d)."""
        return _normalize([find_color_words(text, self.colors) for text in texts], len(self.colors))


def _normalize(rows: Sequence[Floats], width: int) -> Embeddings:
    vectors = np.full((len(rows), width + 1), NONE, np.float32)
    vectors[:, :width] = np.reshape(rows, (len(rows), width))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def load_colors(target: str, *, device: str, precision: str, name: str) -> ColorModel:
    """Return the model of a spec; device and precision have no effect.

    Raises:
        BackendError: the target names an unknown color.
    """
    if problems := list_unknown_colors(target):
        raise BackendError("; ".join(problems))
    return ColorModel(name, tuple(target.split(",")))


def list_unknown_colors(target: str) -> list[str]:
    """Return why the model cannot be loaded; empty if it can."""
    unknown = [name for name in target.split(",") if name not in ImageColor.colormap]
    return [f"{name!r} is not a color of CSS, such as red" for name in unknown]


COLORS = Family(
    name="colors",
    form="dual",
    target="NAME,NAME…",
    help="how well a text names an image's colors; names as in CSS",
    load=load_colors,
    missing=list_unknown_colors,
)
