"""Averages of weights: over the steps of a training, and between a model before and after it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

State = Mapping[str, "torch.Tensor"]


def copy_frozen_model(model: torch.nn.Module) -> torch.nn.Module:
    """Return a copy in evaluation mode that learns nothing."""
    return copy.deepcopy(model).requires_grad_(False).eval()


def update_ema_(average: torch.nn.Module, state: State, decay: float) -> None:
    """Move an average towards the weights of a step: θ̄ ← decay θ̄ + (1 − decay) θ; what is no weight is taken over.

    Args:
        average: changed in place.
        state: of the model that is trained, by the same names.
        decay: in [0, 1].
    """
    import torch

    with torch.no_grad():
        weights = dict(average.named_parameters())
        torch._foreach_lerp_(list(weights.values()), [state[name] for name in weights], 1 - decay)
        for name, buffer in average.named_buffers():
            if name in state:
                buffer.copy_(state[name])


def ema_decay_at(decay: float, step: int) -> float:
    """Return the decay after a step, from 0: less at first, that the average forgets the start soon."""
    return min(decay, (step + 1) / (step + 10))


def interpolate_weights(before: State, after: State, alpha: float) -> dict[str, torch.Tensor]:
    """Return (1 − alpha) before + alpha after, of all numbers that are not whole; the others are those after.

    WiSE-FT (Wortsman et al., CVPR 2022). At 0 and 1 it is one of the two, bit for bit.
    """
    import torch

    ends = {0.0: before, 1.0: after}
    if alpha in ends:
        return dict(ends[alpha])
    return {
        name: torch.lerp(before[name].to(value.device), value, alpha) if value.is_floating_point() else value
        for name, value in after.items()
    }


class WiseFTPoint(NamedTuple):
    """One metric of one mixture: ``selected`` for the one that is taken."""

    alpha: float
    metric: str
    value: float
    selected: bool


def select_alpha(
    model: torch.nn.Module,
    before: State,
    alphas: Sequence[float],
    measure: Callable[[], Mapping[str, float]],
    select: str,
) -> list[WiseFTPoint]:
    """Measure mixtures of a model's weights before and after its training, and leave it the best; return the curve.

    Args:
        model: after its training; changed in place.
        before: its weights before.
        alphas: mixing weights in [0, 1], ascending: 0 is the model before, 1 the one after.
        measure: returns metrics of the model as it is, on validation rows.
        select: that of them which decides; of equal ones, the least alpha is taken.
    """
    after = {name: value.detach().clone() for name, value in model.state_dict().items()}
    curve: list[tuple[float, Mapping[str, float]]] = []
    for alpha in alphas:
        model.load_state_dict(interpolate_weights(before, after, alpha))
        curve.append((alpha, measure()))
    best = max(curve, key=lambda point: (point[1][select], -point[0]))[0]
    model.load_state_dict(interpolate_weights(before, after, best))
    return [
        WiseFTPoint(alpha, name, value, alpha == best)
        for alpha, metrics in curve
        for name, value in metrics.items()
    ]
