"""Ways to train a CLIP contrastively: named, each with its negatives and its loss.

What a step is given is encoded once: images and texts of the positives, and behind them those of the negatives where the
method trains on them. A method never follows from what a set happens to hold: one that lacks a negative of its method is
an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from caramel.training.losses import contrastive_loss

if TYPE_CHECKING:
    import torch

Negative = Literal["negative_caption", "negative_image_id"]
Loss = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor"], "torch.Tensor"]


@dataclass(frozen=True)
class Method:
    """A way to train.

    Attributes:
        name: as in ``finetune.variants``, and of its set in ``data/assemble/training``.
        help: what it does with the negatives, in words, as the README says it.
        negatives: columns of table ``training`` that each row of its set must have; the others no row has.
        loss: (images, texts, scale) -> scalar. images, texts: unit vectors (n, d) of n pairs, or (2n, d) where the
            method has negatives of that sort: those of the positives, then those of the negatives; scale: inverse
            temperature.
    """

    name: str
    help: str
    negatives: tuple[Negative, ...]
    loss: Loss


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
