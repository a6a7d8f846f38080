"""What a way to train a CLIP contrastively is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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
