"""TROHN-Img: negatives with their images are further pairs.

A batch of 128 has 64 captions with their images, and their 64 negatives with theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import clip_loss, distinct_image_mask, get_negatives

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int) -> torch.Tensor:
    """Return InfoNCE on [x; x'] × [y; h]: the available negatives are rows like the others."""
    import torch

    texts, negative_mask = get_negatives(encoded)
    assert encoded.negative_images is not None
    assert encoded.negative_image_ids is not None
    images = torch.cat([encoded.image_features, encoded.negative_images[negative_mask]])
    image_ids = torch.cat([encoded.image_ids, encoded.negative_image_ids[negative_mask]])
    return clip_loss(
        images,
        torch.cat([encoded.text_features, texts[negative_mask]]),
        encoded.logit_scale,
        distinct_image_mask(image_ids),
    )


METHOD = Method(
    name="trohn_img",
    help="captions and images of the negatives are further pairs.",
    source="Miranda et al., BiVLC, NeurIPS 2024, E.3: batch of 200 + 200 pairs, lr 1e-6, decay 0.1, "
    "warm-up 50, 10 epochs.",
    loss=compute_loss,
    negatives=1,
    images=True,
)
