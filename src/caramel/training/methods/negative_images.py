"""Negative images alone: hard negative images as further columns of the text-to-image direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Encoded, Method
from caramel.training.losses import apart, contrast

if TYPE_CHECKING:
    import torch


def loss(encoded: Encoded, step: int) -> torch.Tensor:
    """Return ½ [X(x → y) + X(y → x ⊕ x')]: TROHN-Text with the two sides exchanged.

    No negative caption is seen. Of a batch of 128 it takes 64 rows, as TROHN-Text and TROHN-Img do: 64 captions and 128
    images.
    """
    assert encoded.negative_images is not None
    assert encoded.there is not None
    counts = apart(encoded.image_of)
    to_image = contrast(
        encoded.texts,
        encoded.images,
        encoded.scale,
        counts=counts.T,
        negatives=encoded.negative_images,
        there=encoded.there,
    )
    return (contrast(encoded.images, encoded.texts, encoded.scale, counts=counts) + to_image) / 2


METHOD = Method(
    name="negative_images",
    help="the images of the hard negatives are further columns of the text-to-image loss; their captions are not seen.",
    source="None: an arm of comparison, the part of TROHN-Img that TROHN-Text lacks.",
    loss=loss,
    negatives=1,
    images=True,
    captions=False,
)
