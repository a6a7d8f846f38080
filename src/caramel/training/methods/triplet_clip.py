"""TripletCLIP: captions and negatives in both roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Encoded, Method
from caramel.training.losses import apart, neg, negatives_of, with_negative_texts

if TYPE_CHECKING:
    import torch


def loss(encoded: Encoded, step: int) -> torch.Tensor:
    """Return Neg(x, y, h) + Neg(x', h, y): a sum, both terms in each step.

    No x' is a column of a caption: unlike in TROHN-Img, text to image has no hard negative.
    """
    import torch

    texts, there = negatives_of(encoded)
    assert encoded.negative_images is not None
    assert encoded.negative_image_of is not None
    all_there = torch.ones(len(encoded.texts), dtype=torch.bool, device=there.device)
    turned = with_negative_texts(
        encoded.negative_images[there],
        texts[there],
        encoded.scale,
        apart(encoded.negative_image_of[there]),
        encoded.texts,
        all_there,
    )
    return neg(encoded) + turned


METHOD = Method(
    name="triplet_clip",
    help="as `trohn_text`, and once more with the negatives and their images as pairs and the captions as their negatives.",
    source="Patel et al., NeurIPS 2024; from scratch: batch 1024, lr 5e-4, decay 0.5, warm-up 1000, 10 epochs. Settings for "
    "fine-tuning are not released.",
    loss=loss,
    negatives=1,
    images=True,
)
