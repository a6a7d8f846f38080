"""SigLIP: a separate binary classification for each pair of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import compute_sigmoid_loss

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int) -> torch.Tensor:
    """Return −(1/n) Σ_ij ln σ(z_ij (s x_i·y_j + b)) with z = 1 on the diagonal and −1 elsewhere.

    The sum is divided by n, not by n². The fork of open_clip that CE-CLIP uses takes the mean over all pairs,
    which amounts to another learning rate. Two rows of one image are neither a positive nor a negative pair
    and are left out.
    """
    return compute_sigmoid_loss(encoded)


METHOD = Method(
    name="siglip",
    help="none; a sigmoid for each pair, instead of a softmax over the batch.",
    source="Zhai et al., ICCV 2023: initial scale 10 and bias −10.",
    loss=compute_loss,
    bias=True,
)
