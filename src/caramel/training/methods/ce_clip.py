"""CE-CLIP: separate captions from all negatives, and rank each above its own by an adaptive margin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method, State
from caramel.training.losses import get_negatives, negclip_loss

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int, *, imc: float, cmr: float, margin: float) -> torch.Tensor:
    """Return Neg(x, y, h) + ``imc`` · IMC + ``cmr`` · CMR.

    IMC = −mean_i ln[e^(s x_i·y_i) / (e^(s x_i·y_i) + Σ_m e^(s y_i·h_m))] over the negatives of all rows.
    CMR = (1 / nK) Σ_ik max(0, T_k + s x_i·h_ik − s x_i·y_i) over the available negatives.
    T: see ``compute_thresholds``.

    The published code had this IMC for only four days. Before, its target was another column. Later, the
    positive column is missing, and each row's target is the first negative of row 0.
    """
    return negclip_loss(encoded) + imc * intra_modal_loss(encoded) + cmr * cross_modal_rank_loss(encoded)


def intra_modal_loss(encoded: Features) -> torch.Tensor:
    """Return IMC; see ``compute_loss``."""
    import torch

    negatives, negative_mask = get_negatives(encoded)
    positive = encoded.logit_scale * (encoded.image_features * encoded.text_features).sum(1, keepdim=True)
    among = encoded.logit_scale * encoded.text_features @ negatives.flatten(0, 1).T
    logits = torch.cat([positive, among.masked_fill(~negative_mask.flatten(), -torch.inf)], 1)
    return -logits.log_softmax(1)[:, 0].mean()


def cross_modal_rank_loss(encoded: Features) -> torch.Tensor:
    """Return CMR; see ``compute_loss``."""
    _, negative_mask = get_negatives(encoded)
    assert encoded.negative_types is not None
    assert encoded.state is not None
    positive, negative = _compute_logits(encoded)
    over = (encoded.state[encoded.negative_types] + negative - positive[:, None]).relu()
    return (over * negative_mask).sum() / negative_mask.numel()


def compute_thresholds(encoded: Features, weights: Mapping[str, float]) -> torch.Tensor:
    """Return T for the next step, one for each type of negatives, (types,), in logit units.

    T = clip(mean_i s x_i·y_i − the mean of s x_i·h over the negatives of the type, 0, ``margin``). It does
    not change for a type that is missing from the batch.
    """
    import torch

    _, negative_mask = get_negatives(encoded)
    assert encoded.negative_types is not None
    assert encoded.state is not None
    positive, negative = _compute_logits(encoded)
    type_mask = encoded.negative_types[..., None] == torch.arange(
        len(encoded.state), device=negative_mask.device
    )
    type_weights = (type_mask & negative_mask[..., None]).to(negative.dtype)  # (n, K, types)
    number = type_weights.sum((0, 1))
    means = (negative[..., None] * type_weights).sum((0, 1)) / number.clamp(min=1)
    return torch.where(number > 0, (positive.mean() - means).clamp(0, weights["margin"]), encoded.state)


def _compute_logits(encoded: Features) -> tuple[torch.Tensor, torch.Tensor]:
    """Return s x_i·y_i, (n,), and s x_i·h_ik, (n, K)."""
    negatives, _ = get_negatives(encoded)
    positive = encoded.logit_scale * (encoded.image_features * encoded.text_features).sum(1)
    return positive, encoded.logit_scale * (negatives * encoded.image_features[:, None]).sum(2)


def _create_zeros(num_types: int) -> torch.Tensor:
    import torch

    return torch.zeros(num_types)


METHOD = Method(
    name="ce_clip",
    help="as `trohn_text`, with four negatives. Two further terms separate each caption from all "
    "negatives, and rank it above its own negatives by a margin that grows during training.",
    source="Zhang et al., CVPR 2024: batch 4 × 378, lr 5e-6, decay 0.1, warm-up 50, 10 epochs; thresholds "
    "start at 0, in their code at 0 in each epoch.",
    loss=compute_loss,
    weights={"imc": 0.3, "cmr": 0.2, "margin": 10.0},
    negatives=4,
    state=State(_create_zeros, compute_thresholds),
)
