"""Encoded image files -> pictures and pixels: the one place where images are opened.

A picture is read as this field reads it, with two differences that are named here.

    formats        JPEG, PNG, WebP, GIF, BMP, TIFF and PPM; of several frames or pages the first
    8 bits         grey, palette, CMYK and YCbCr become RGB as Pillow's ``convert("RGB")`` has it, which open_clip uses;
                   alpha is dropped, so that what was transparent has the colour that is stored beneath it
    16-bit colour  the upper byte, as Pillow reads it
    16-bit grey    value / 257, so that the whole range is kept (``convert("RGB")`` would cut at 255: nearly all white)
    others         32-bit, signed and floating-point numbers state no range, and are refused
    EXIF           a picture is turned upright, as ``datasets`` and every viewer do: so it was seen by those who wrote
                   its captions, and so are boxes in it. open_clip and torchvision would leave it as it is stored.

A file that is damaged is an error, and never a picture of which a part is grey; see ``image_damage``.
Pictures of more pixels than ``CARAMEL_MAX_PIXELS`` are refused before they are decoded: a file of a few kilobytes
can hold gigabytes.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from caramel.errors import ConfigError, DataError
from caramel.io.image_checks import check_jpeg, check_png

if TYPE_CHECKING:
    from PIL import Image

JPEGS = ("JPEG", "MPO")  # what Pillow calls them; MPO is a JPEG with further ones behind it
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # no other decoder is ever started
LIMIT = "CARAMEL_MAX_PIXELS"
MAX_PIXELS = 89_478_485  # unless the environment says otherwise; from here on Pillow warns
MOST_PIXELS = 2 * MAX_PIXELS  # above, Pillow itself refuses
# What Pillow raises on broken files of its various formats.
_BROKEN = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    EOFError,
    struct.error,
    zlib.error,
)
_TURNED = (5, 6, 7, 8)  # values of the EXIF orientation that swap width and height
ORIENTATION = 0x0112  # EXIF: how the camera was held
_BITS, _PHOTOMETRIC = 258, 262  # tags of TIFF; a photometric value of 0: white is zero


def get_max_pixels() -> int:
    """Return how many pixels a picture has at most.

    Raises:
        ConfigError: ``CARAMEL_MAX_PIXELS`` is not a number of them.
    """
    stated = os.environ.get(LIMIT, str(MAX_PIXELS))
    number = int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 12 else 0
    if not 1 <= number <= MOST_PIXELS:
        raise ConfigError(f"{LIMIT} must be a whole number from 1 to {MOST_PIXELS}, not {stated!r}.")
    return number


@contextmanager
def open_encoded_image(data: bytes, name: str) -> Iterator[Image.Image]:
    """Give the file as Pillow opens it, not decoded yet; what is raised within on a broken file is explained.

    Raises:
        DataError: the file is of another format, broken, empty or too large; the message names it.
        ConfigError: ``CARAMEL_MAX_PIXELS`` is no number of pixels.
    """
    from PIL import Image, UnidentifiedImageError

    limit = get_max_pixels()
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if min(image.size) < 1:
                raise ValueError(f"it has {image.width} × {image.height} pixels")
            if image.width * image.height > limit:
                raise Image.DecompressionBombError(f"{image.width} × {image.height} pixels")
            yield image
    except UnidentifiedImageError as error:
        raise DataError(
            f"Image {name!r} does not decode ({len(data)} bytes): it is none of {', '.join(FORMATS)}, or cut off."
        ) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(
            f"Image {name!r} is too large: {error}, and no more than {limit:,} are decoded. Scale it down, or "
            f"set {LIMIT} to at most {MOST_PIXELS:,}."
        ) from error
    except _BROKEN as error:
        raise DataError(
            f"Image {name!r} does not decode ({len(data)} bytes): {error}. Replace the file, or leave out its rows."
        ) from error


def decode_image(data: bytes, name: str) -> Image.Image:
    """Return the picture as RGB, upright; see the module. Errors as in ``opened``."""
    from PIL import ImageOps

    with open_encoded_image(data, name) as image:
        if image.format in JPEGS:
            check_jpeg(data)
        elif image.format == "PNG":
            check_png(data)
        upright = ImageOps.exif_transpose(image)
        return (_convert_to_eight_bits(upright, image) if _is_deep(image) else upright).convert("RGB")


def check_image(data: bytes, name: str) -> tuple[int, int]:
    """Return width and height of the upright picture, after decoding it; errors as in ``opened``.

    A JPEG is decoded whole, but to an eighth of its size: it shows damage in a third of the time.
    """
    with open_encoded_image(data, name) as image:
        if image.format in JPEGS and check_jpeg(data):
            return image.size[::-1] if image.getexif().get(ORIENTATION) in _TURNED else image.size
    return decode_image(data, name).size


def decode_center_crop(data: bytes, name: str, size: int) -> npt.NDArray[np.uint8]:
    """Return the picture's centre square, shape (size, size, 3); errors as in ``opened``."""
    from PIL import Image, ImageOps

    picture = decode_image(data, name)
    if picture.size != (size, size):
        picture = ImageOps.fit(picture, (size, size), Image.Resampling.BICUBIC)
    return np.asarray(picture, np.uint8)


def _is_deep(image: Image.Image) -> bool:
    """Return whether the picture is grey in more than 8 bits; of colours Pillow itself takes the upper 8.

    Raises:
        ValueError: nothing says which of its numbers is black and which is white.
    """
    if image.mode == "I" and image.format == "PPM":  # Pillow brings all of them to 16 bits
        return True
    if image.mode in ("I", "F"):
        raise ValueError(f"its numbers (mode {image.mode!r}) state no range from black to white")
    return image.mode.startswith("I;16")


def _convert_to_eight_bits(upright: Image.Image, image: Image.Image) -> Image.Image:
    """Return the upright picture, of 16 bits, as grey of 8; ``image`` is what was opened."""
    from PIL import Image

    tags = getattr(image, "tag_v2", {}) if image.format == "TIFF" else {}
    if tags.get(_BITS, (16,)) != (16,):
        raise ValueError(f"grey of {tags[_BITS]} bits is not read, only of 8 and of 16")
    values = np.asarray(upright, np.uint32)
    if tags.get(_PHOTOMETRIC) == 0:
        values = 65535 - values
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))
