"""A training method: a caption must be nearer to its image than its hard negatives are, by a margin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import clip_loss, distinct_image_mask, get_negatives

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int, *, margin: float, hinge: float) -> torch.Tensor:
    """Return InfoNCE + hinge · mean of max(0, margin − x·y + x·h) over the available negatives h."""
    images, texts = encoded.image_features, encoded.text_features
    negatives, available = get_negatives(encoded)
    key_mask = distinct_image_mask(encoded.image_ids)
    gaps = (images * texts).sum(1, keepdim=True) - (images[:, None] * negatives).sum(2)
    losses = (margin - gaps).clamp(min=0) * available
    contrastive = clip_loss(images, texts, encoded.logit_scale, key_mask)
    return contrastive + hinge * losses.sum() / available.sum().clamp(min=1)


MARGIN = Method(
    name="margin",
    help="the caption must be nearer to the image than each hard-negative caption, by a margin.",
    source="the hinge loss of VSE++ (Faghri et al., BMVC 2018), on given negatives, beside InfoNCE.",
    loss=compute_loss,
    weights={"margin": 0.2, "hinge": 1.0},
    negatives=1,
)
