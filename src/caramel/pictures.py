"""Encoded image files -> pictures and pixels: the one place where images are decoded."""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from caramel.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

# What Pillow raises on broken files of its various formats.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error)


def open_picture(data: bytes, name: str) -> Image.Image:
    """Return the picture as RGB, turned upright where a camera recorded how it was held.

    Raises:
        DataError: the file does not decode, or is absurdly large; the message names it.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(data)) as image:
            return ImageOps.exif_transpose(image).convert("RGB")
    except (*BROKEN, Image.DecompressionBombError) as error:
        raise DataError(f"Image {name!r} does not decode ({len(data)} bytes): {error}") from error


def pixels(data: bytes, name: str, size: int) -> npt.NDArray[np.uint8]:
    """Return the picture's centre square, shape (size, size, 3); errors as in ``open_picture``."""
    from PIL import Image, ImageOps

    picture = open_picture(data, name)
    if picture.size != (size, size):
        picture = ImageOps.fit(picture, (size, size), Image.Resampling.BICUBIC)
    return np.asarray(picture, np.uint8)
