"""Encode images as small WebP files for one self-contained page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

from caramel.benchmarks.image_files import read_encoded_image
from caramel.errors import DataError
from caramel.interfaces.benchmark import ImageFile
from caramel.io.image_codec import decode_image
from caramel.runtime.ray.sharded_map import map_in_threads

QUALITY = 60  # of WebP, in [0, 100]


def encode_thumbnails(images: Sequence[ImageFile], size: int) -> list[str | None]:
    """Return each image as the base64 text of a WebP file; None for an image that cannot be read.

    Args:
        images: images of benchmarks.
        size: largest width and height in pixels; smaller images keep theirs.
    """
    return map_in_threads(lambda image: _encode_thumbnail(image, size), images)


def _encode_thumbnail(image: ImageFile, size: int) -> str | None:
    try:
        picture = decode_image(read_encoded_image(image), str(image)).convert("RGB")
    except DataError:
        return None
    picture.thumbnail((size, size))
    stream = io.BytesIO()
    picture.save(stream, "WEBP", quality=QUALITY)
    return base64.b64encode(stream.getvalue()).decode()
