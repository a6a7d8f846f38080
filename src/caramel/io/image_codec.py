"""Decode encoded image files into images and pixels. Images are opened only here.

Images are decoded as is usual in the field, with two differences (16-bit grey and EXIF):

    formats        JPEG, PNG, WebP, GIF, BMP, TIFF and PPM; only the first frame or page
    8 bits         grey, palette, CMYK and YCbCr become RGB by Pillow's ``convert("RGB")``, as in open_clip;
                   alpha is dropped, so that transparent parts get the colour stored beneath them
    16-bit colour  the upper byte, as Pillow reads it
    16-bit grey    value / 257, which keeps the whole range (``convert("RGB")`` would clip at 255: nearly all white)
    others         32-bit, signed and floating-point values state no range, and are refused
    EXIF           an image is turned upright, as in ``datasets`` and every viewer. The authors of its captions
                   saw it so, and boxes refer to the upright image. open_clip and torchvision would leave it
                   as stored.

A damaged file is an error. It never yields an image that is partly grey; see ``image_checks``. Images with
more pixels than ``CARAMEL_MAX_PIXELS`` are refused before they are decoded, because a file of a few kilobytes
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

JPEGS = ("JPEG", "MPO")  # Pillow's names; MPO is a JPEG followed by further ones
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # no other decoder is ever used
LIMIT = "CARAMEL_MAX_PIXELS"
MAX_PIXELS = 89_478_485  # default; above it Pillow warns
MOST_PIXELS = 2 * MAX_PIXELS  # above it Pillow itself refuses
# Exceptions that Pillow raises for broken files of its various formats.
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
ORIENTATION = 0x0112  # EXIF: orientation of the camera
_BITS, _PHOTOMETRIC = 258, 262  # tags of TIFF; a photometric value of 0: white is zero


def get_max_pixels() -> int:
    """Return the largest allowed number of pixels of an image.

    Raises:
        ConfigError: ``CARAMEL_MAX_PIXELS`` is not a valid number of pixels.
    """
    stated = os.environ.get(LIMIT, str(MAX_PIXELS))
    number = int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 12 else 0
    if not 1 <= number <= MOST_PIXELS:
        raise ConfigError(f"{LIMIT} must be a whole number from 1 to {MOST_PIXELS}, not {stated!r}.")
    return number


@contextmanager
def open_encoded_image(data: bytes, name: str) -> Iterator[Image.Image]:
    """Yield the file as Pillow opens it, before decoding.

    Errors of a broken file that occur inside are explained.

    Raises:
        DataError: the file has another format, or is broken, empty or too large; the message names it.
        ConfigError: ``CARAMEL_MAX_PIXELS`` is not a number of pixels.
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
            f"Image {name!r} does not decode ({len(data)} bytes): it is not one of {', '.join(FORMATS)}, or is truncated."
        ) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(
            f"Image {name!r} is too large: {error}, and at most {limit:,} are decoded. Scale it down, or "
            f"set {LIMIT} to at most {MOST_PIXELS:,}."
        ) from error
    except _BROKEN as error:
        raise DataError(
            f"Image {name!r} does not decode ({len(data)} bytes): {error}. Replace the file, or leave out its rows."
        ) from error


def decode_image(data: bytes, name: str) -> Image.Image:
    """Return the image as upright RGB; see the module's docstring.

    Raises the errors of ``open_encoded_image``.
    """
    from PIL import ImageOps

    with open_encoded_image(data, name) as image:
        if image.format in JPEGS:
            check_jpeg(data)
        elif image.format == "PNG":
            check_png(data)
        upright = ImageOps.exif_transpose(image)
        return (_convert_to_eight_bits(upright, image) if _is_deep(image) else upright).convert("RGB")


def check_image(data: bytes, name: str) -> tuple[int, int]:
    """Decode the image and return the width and height of the upright image.

    Raises the errors of ``open_encoded_image``.
    The whole JPEG is decoded, but at an eighth of its size. This finds damage in a third of the time.
    """
    with open_encoded_image(data, name) as image:
        if image.format in JPEGS and check_jpeg(data):
            return image.size[::-1] if image.getexif().get(ORIENTATION) in _TURNED else image.size
    return decode_image(data, name).size


def decode_center_crop(data: bytes, name: str, size: int) -> npt.NDArray[np.uint8]:
    """Return the image's centre square, shape (size, size, 3); errors as in ``open_encoded_image``."""
    from PIL import Image, ImageOps

    picture = decode_image(data, name)
    if picture.size != (size, size):
        picture = ImageOps.fit(picture, (size, size), Image.Resampling.BICUBIC)
    return np.asarray(picture, np.uint8)


def _is_deep(image: Image.Image) -> bool:
    """Return whether the image is grey with more than 8 bits. For colours, Pillow itself takes the upper 8.

    Raises:
        ValueError: the file does not state which values are black and white.
    """
    if image.mode == "I" and image.format == "PPM":  # Pillow scales all of them to 16 bits
        return True
    if image.mode in ("I", "F"):
        raise ValueError(f"its values (mode {image.mode!r}) state no range from black to white")
    return image.mode.startswith("I;16")


def _convert_to_eight_bits(upright: Image.Image, image: Image.Image) -> Image.Image:
    """Return the upright 16-bit image as 8-bit grey. ``image`` is the image as opened."""
    from PIL import Image

    tags = getattr(image, "tag_v2", {}) if image.format == "TIFF" else {}
    if tags.get(_BITS, (16,)) != (16,):
        raise ValueError(f"grey with {tags[_BITS]} bits is not supported, only with 8 or 16")
    values = np.asarray(upright, np.uint32)
    if tags.get(_PHOTOMETRIC) == 0:
        values = 65535 - values
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))
