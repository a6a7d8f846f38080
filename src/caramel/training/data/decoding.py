"""Pictures decoded for training: the pixels of ``io.image_codec``, of JPEGs in less time.

simplejpeg and Pillow decode by the same library, libjpeg-turbo, each by a copy of its own; a test says when they no longer
agree. Evaluation does not depend on that: it opens pictures by Pillow alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.io.image_codec import ORIENTATION, decode_image, open_encoded_image

if TYPE_CHECKING:
    from PIL import Image


def decode_training_image(data: bytes, name: str) -> Image.Image:
    """Return what ``open_picture`` returns, bit for bit; errors as there."""
    import simplejpeg
    from PIL import Image

    with open_encoded_image(data, name) as image:
        plain = image.format == "JPEG" and image.mode == "RGB" and image.getexif().get(ORIENTATION, 1) == 1
    if plain:
        try:
            return Image.fromarray(simplejpeg.decode_jpeg(data, "RGB"))
        except ValueError:  # damaged, which open_picture refuses; or whole with an odd header, which it reads
            pass
    return decode_image(data, name)
