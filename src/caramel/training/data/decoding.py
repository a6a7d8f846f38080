"""Decode images for training: the same pixels as ``io.image_codec``, with faster decoding of JPEGs.

simplejpeg and Pillow decode with the same library, libjpeg-turbo; each has its own copy. A test fails if they
no longer agree. Evaluation does not depend on this: it opens images with Pillow only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.io.image_codec import ORIENTATION, decode_image, open_encoded_image

if TYPE_CHECKING:
    from PIL import Image


def decode_training_image(data: bytes, name: str) -> Image.Image:
    """Return what ``decode_image`` returns, bit for bit, with the same errors."""
    import simplejpeg
    from PIL import Image

    with open_encoded_image(data, name) as image:
        plain = image.format == "JPEG" and image.mode == "RGB" and image.getexif().get(ORIENTATION, 1) == 1
    if plain:
        try:
            return Image.fromarray(simplejpeg.decode_jpeg(data, "RGB"))
        except ValueError:  # decode_image rejects a damaged file, and reads an intact one with an odd header
            pass
    return decode_image(data, name)
