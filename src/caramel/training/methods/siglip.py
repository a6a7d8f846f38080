"""SigLIP: a separate binary classification for each pair of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import distinct_image_mask

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int) -> torch.Tensor:
    """Return −(1/n) Σ_ij ln σ(z_ij (s x_i·y_j + b)) with z = 1 on the diagonal and −1 elsewhere.

    The sum is divided by n, not by n². The fork of open_clip that CE-CLIP uses takes the mean over all pairs,
    which amounts to another learning rate. Two rows of one image are neither a positive nor a negative pair
    and are left out.
    """
    import torch
    from torch.nn.functional import logsigmoid

    assert encoded.logit_bias is not None
    n = len(encoded.image_features)
    logits = encoded.logit_scale * encoded.image_features @ encoded.text_features.T + encoded.logit_bias
    signs = 2 * torch.eye(n, device=logits.device, dtype=logits.dtype) - 1
    return -(logsigmoid(signs * logits) * distinct_image_mask(encoded.image_ids)).sum() / n


METHOD = Method(
    name="siglip",
    help="none; a sigmoid for each pair, instead of a softmax over the batch.",
    source="Zhai et al., ICCV 2023: initial scale 10 and bias −10.",
    loss=compute_loss,
    bias=True,
)
