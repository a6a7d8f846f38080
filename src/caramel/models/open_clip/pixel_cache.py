"""Resize and crop images as open_clip does, and keep the pixels of small ones.

A process that loads several models in turn, such as a worker of ``finetune`` or ``evaluate``, would otherwise
decode the same images for each of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL import Image

CACHED_IMAGES = 2**14  # images whose pixels a process keeps
LARGEST = 64 * 64  # pixels of an image that is kept: at most 200 MB for all of them
LARGEST_FILE = 2**13  # bytes of its encoded file, which is kept too: at most 134 MB for all of them


@dataclass(frozen=True)
class ResizeAndCrop:
    """open_clip's preprocessing up to the pixels; two with equal settings give equal pixels, and are equal.

    Attributes:
        settings: the preprocessing as JSON.
        pixels: number of pixels of its result.
        steps: torchvision's transforms, none of which draws at random.
    """

    settings: str
    pixels: int
    steps: Sequence[Callable[[Any], Any]] = field(compare=False)

    def __call__(self, image: Image.Image) -> Image.Image:
        """Return the resized and cropped image."""
        for step in self.steps:
            image = step(image)
        return image


@dataclass(frozen=True)
class _EncodedImage:
    data: bytes
    name: str = field(compare=False)  # only for messages


def load_pixels(
    data: bytes,
    name: str,
    decode: Callable[[bytes, str], Image.Image],
    to_pixels: Callable[[Image.Image], Image.Image],
) -> npt.NDArray[np.uint8]:
    """Return the pixels of an encoded image, (height, width, 3), which may be read-only.

    Args:
        data: the encoded file.
        name: its name in messages.
        decode: returns the image of a file and its name.
        to_pixels: resizes and crops; only if it is a ``ResizeAndCrop`` to a small size, the pixels of small
            files are kept.

    Raises:
        DataError: as ``decode`` does.
    """
    small = len(data) <= LARGEST_FILE  # photographs are not: their files would fill the memory
    if small and isinstance(to_pixels, ResizeAndCrop) and to_pixels.pixels <= LARGEST:
        return _load_cached_pixels(_EncodedImage(data, name), decode, to_pixels)
    return np.asarray(to_pixels(decode(data, name)), np.uint8)


@functools.lru_cache(CACHED_IMAGES)
def _load_cached_pixels(
    image: _EncodedImage, decode: Callable[[bytes, str], Image.Image], to_pixels: ResizeAndCrop
) -> npt.NDArray[np.uint8]:
    pixels = np.asarray(to_pixels(decode(image.data, image.name)), np.uint8)
    pixels.flags.writeable = False  # the array is returned again
    return pixels
