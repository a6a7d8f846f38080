"""TripletCLIP: captions with their negatives, and negatives with the captions as their negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import distinct_image_mask, get_negatives, hard_negative_clip_loss, negclip_loss

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int) -> torch.Tensor:
    """Return Neg(x, y, h) + Neg(x', h, y), with both terms in each step.

    A caption has no column for x'. So, unlike in TROHN-Img, the text-to-image direction has no hard
    negatives.
    """
    import torch

    texts, negative_mask = get_negatives(encoded)
    assert encoded.negative_images is not None
    assert encoded.negative_image_ids is not None
    full_mask = torch.ones(len(encoded.text_features), dtype=torch.bool, device=negative_mask.device)
    turned = hard_negative_clip_loss(
        encoded.negative_images[negative_mask],
        texts[negative_mask],
        encoded.logit_scale,
        distinct_image_mask(encoded.negative_image_ids[negative_mask]),
        encoded.text_features,
        full_mask,
    )
    return negclip_loss(encoded) + turned


METHOD = Method(
    name="triplet_clip",
    help="the loss of `trohn_text`, plus the same loss with the negatives and their images as pairs and "
    "the captions as their negatives.",
    source="Patel et al., NeurIPS 2024; from scratch: batch 1024, lr 5e-4, decay 0.5, warm-up 1000, 10 "
    "epochs. Settings for fine-tuning are not released.",
    loss=compute_loss,
    negatives=1,
    images=True,
)
