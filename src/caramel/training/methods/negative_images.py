"""Negative images only: hard negative images as further columns of the text-to-image direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import contrastive_cross_entropy, distinct_image_mask

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int) -> torch.Tensor:
    """Return ½ [X(x → y) + X(y → x ⊕ x')]: TROHN-Text with images and texts swapped.

    Negative captions are not used. A batch of 128 has 64 rows, as for TROHN-Text and TROHN-Img: 64 captions
    and 128 images.
    """
    assert encoded.negative_images is not None
    assert encoded.negative_mask is not None
    key_mask = distinct_image_mask(encoded.image_ids)
    to_image = contrastive_cross_entropy(
        encoded.text_features,
        encoded.image_features,
        encoded.logit_scale,
        key_mask=key_mask.T,
        negatives=encoded.negative_images,
        negative_mask=encoded.negative_mask,
    )
    return (
        contrastive_cross_entropy(
            encoded.image_features, encoded.text_features, encoded.logit_scale, key_mask=key_mask
        )
        + to_image
    ) / 2


METHOD = Method(
    name="negative_images",
    help="the images of the hard negatives are further columns of the text-to-image loss; their captions "
    "are not used.",
    source="None: a control, the part of TROHN-Img that TROHN-Text lacks.",
    loss=compute_loss,
    negatives=1,
    images=True,
    captions=False,
)
