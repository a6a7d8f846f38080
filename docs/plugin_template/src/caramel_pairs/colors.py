"""How much of an image has each of some named colors, and which of the names a text has."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from PIL import ImageColor

from caramel.interfaces.model import Floats
from caramel.io.image_codec import decode_center_crop

SIZE = 32  # pixels per side at which colors are counted


def measure_colors(image: bytes, names: Sequence[str]) -> Floats:
    """Return the share of an encoded image's pixels that are nearest to each color, (n,); the sum is 1.

    Raises:
        DataError: the image is broken.
    """
    palette = np.array([ImageColor.getrgb(name)[:3] for name in names], float)
    pixels = decode_center_crop(image, "to measure", SIZE).reshape(-1, 1, 3).astype(float)
    nearest = ((pixels - palette) ** 2).sum(-1).argmin(1)
    return np.bincount(nearest, minlength=len(names)) / len(pixels)


def find_color_words(text: str, names: Sequence[str]) -> Floats:
    """Return 1 for each color that the text names, else 0; (n,)."""
    words = set(re.findall(r"\w+", text.lower()))
    return np.array([name in words for name in names], float)
