"""NegCLIP: one hard negative text for each row, and rows with similar images in the same batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import negclip_loss

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int) -> torch.Tensor:
    """Return Neg(x, y, h); half of the rows are neighbours, with their own captions and negatives."""
    return negclip_loss(encoded)


METHOD = Method(
    name="negclip",
    help="as `trohn_text`, but one of a row's negatives is drawn at each visit. Half of a batch are rows "
    "whose images are nearest neighbours of the images of the other half.",
    source="Yuksekgonul et al., ICLR 2023, 4.1: three nearest neighbours by CLIP; batch 256, lr 1e-6, "
    "decay 0.2, warm-up 50, 5 epochs. Their code is wrong on several GPUs, where gathering breaks "
    "the order of the labels.",
    loss=compute_loss,
    negatives=1,
    drawn=True,
    neighbours=3,
)
