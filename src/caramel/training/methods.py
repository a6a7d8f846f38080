"""Ways to train a CLIP contrastively: named, each with its negatives and its loss.

What a step is given is encoded once: images and texts of the positives, and behind them those of the negatives where the
method trains on them. A method never follows from what a set happens to hold: one that lacks a negative of its method is
an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.kinds.method import Method
from caramel.training.losses import contrastive_loss

if TYPE_CHECKING:
    import torch


def _with_columns(images: torch.Tensor, texts: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the loss with the negative texts as further columns of the image-to-text direction."""
    positives, negatives = texts.chunk(2)
    return contrastive_loss(images, positives, scale, negatives)


IN_BATCH = Method("in_batch", "none; plain InfoNCE.", (), contrastive_loss)
NEGATIVE_TEXTS = Method(
    "negative_texts",
    "the hard-negative captions are further columns of the image-to-text loss (as NegCLIP, TROHN-Text).",
    ("negative_caption",),
    _with_columns,
)
# Twice as many pairs: a 2n × 2n InfoNCE.
NEGATIVE_TEXTS_IMAGES = Method(
    "negative_texts_images",
    "captions and images of the negatives are pairs of their own (as TROHN-Img).",
    ("negative_caption", "negative_image_id"),
    contrastive_loss,
)
