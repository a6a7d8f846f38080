"""CE-CLIP: negatives apart from each other's captions, and below the caption by a margin that adapts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from caramel.interfaces.method import Encoded, Method, State
from caramel.training.losses import neg, negatives_of

if TYPE_CHECKING:
    import torch


def loss(encoded: Encoded, step: int, *, imc: float, cmr: float, margin: float) -> torch.Tensor:
    """Return Neg(x, y, h) + ``imc`` · IMC + ``cmr`` · CMR.

    IMC = −mean_i ln[e^(s x_i·y_i) / (e^(s x_i·y_i) + Σ_m e^(s y_i·h_m))] over the negatives of all rows.
    CMR = (1 / nK) Σ_ik max(0, T_k + s x_i·h_ik − s x_i·y_i) over the negatives that there are; T: see ``thresholds``.

    In the published code IMC was so for four days alone: before, its target is another column, and later the positive
    column is missing and each row's target is the first negative of row 0.
    """
    return neg(encoded) + imc * intra_modal(encoded) + cmr * ranking(encoded)


def intra_modal(encoded: Encoded) -> torch.Tensor:
    """Return IMC; see ``loss``."""
    import torch

    negatives, there = negatives_of(encoded)
    positive = encoded.scale * (encoded.images * encoded.texts).sum(1, keepdim=True)
    among = encoded.scale * encoded.texts @ negatives.flatten(0, 1).T
    logits = torch.cat([positive, among.masked_fill(~there.flatten(), -torch.inf)], 1)
    return -logits.log_softmax(1)[:, 0].mean()


def ranking(encoded: Encoded) -> torch.Tensor:
    """Return CMR; see ``loss``."""
    _, there = negatives_of(encoded)
    assert encoded.kinds is not None
    assert encoded.state is not None
    positive, negative = _logits(encoded)
    over = (encoded.state[encoded.kinds] + negative - positive[:, None]).relu()
    return (over * there).sum() / there.numel()


def thresholds(encoded: Encoded, weights: Mapping[str, float]) -> torch.Tensor:
    """Return T for the next step, one of each kind of negatives, (kinds,), in logit units.

    clip(mean_i s x_i·y_i − the mean of s x_i·h over the negatives of that kind, 0, ``margin``); of a kind that the
    batch does not have it stays.
    """
    import torch

    _, there = negatives_of(encoded)
    assert encoded.kinds is not None
    assert encoded.state is not None
    positive, negative = _logits(encoded)
    kinds = encoded.kinds[..., None] == torch.arange(len(encoded.state), device=there.device)
    of_kind = (kinds & there[..., None]).to(negative.dtype)  # (n, K, kinds)
    number = of_kind.sum((0, 1))
    means = (negative[..., None] * of_kind).sum((0, 1)) / number.clamp(min=1)
    return torch.where(number > 0, (positive.mean() - means).clamp(0, weights["margin"]), encoded.state)


def _logits(encoded: Encoded) -> tuple[torch.Tensor, torch.Tensor]:
    """Return s x_i·y_i, (n,), and s x_i·h_ik, (n, K)."""
    negatives, _ = negatives_of(encoded)
    positive = encoded.scale * (encoded.images * encoded.texts).sum(1)
    return positive, encoded.scale * (negatives * encoded.images[:, None]).sum(2)


def _zeros(kinds: int) -> torch.Tensor:
    import torch

    return torch.zeros(kinds)


METHOD = Method(
    name="ce_clip",
    help="as `trohn_text`, with four negatives; besides, each caption is set apart from all negatives, and lies above its own by "
    "a margin that grows with the training.",
    source="Zhang et al., CVPR 2024: batch 4 × 378, lr 5e-6, decay 0.1, warm-up 50, 10 epochs; thresholds start at 0, in their "
    "code in each epoch.",
    loss=loss,
    weights={"imc": 0.3, "cmr": 0.2, "margin": 10.0},
    negatives=4,
    state=State(_zeros, thresholds),
)
