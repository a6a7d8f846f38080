"""Encoded image files <-> pixels."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt

from caramel.errors import DataError


def pixels(data: bytes, name: str, size: int) -> npt.NDArray[np.uint8]:
    """Return the picture's centre square as RGB, shape (size, size, 3).

    Raises:
        DataError: the file does not decode; the message names it.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as image:
            picture = ImageOps.exif_transpose(image).convert("RGB")
            if picture.size != (size, size):
                picture = ImageOps.fit(picture, (size, size), Image.Resampling.BICUBIC)
            return np.asarray(picture, np.uint8)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise DataError(f"Image {name!r} does not decode ({len(data)} bytes): {error}") from error
