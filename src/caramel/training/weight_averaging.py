"""Average weights: over the steps of a training (EMA), and of a model before and after it (WiSE-FT)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

State = Mapping[str, "torch.Tensor"]


def copy_frozen_model(model: torch.nn.Module) -> torch.nn.Module:
    """Return a frozen copy of the model in evaluation mode."""
    return copy.deepcopy(model).requires_grad_(False).eval()


def update_ema_(average: torch.nn.Module, state: State, decay: float) -> None:
    """Update an average with the weights of a step: θ̄ ← decay θ̄ + (1 − decay) θ; buffers are copied.

    ``torch.optim.swa_utils.AveragedModel`` gives other numbers: its first update copies the weights,
    regardless of its averaging function. It also pairs parameters by order, and a model with low-rank updates
    has other parameters than its average.

    Args:
        average: averaged model, changed in place.
        state: weights and buffers of the trained model, by the same names.
        decay: weight of the average, in [0, 1].
    """
    import torch

    with torch.no_grad():
        weights = dict(average.named_parameters())
        torch._foreach_lerp_(list(weights.values()), [state[name] for name in weights], 1 - decay)
        for name, buffer in average.named_buffers():
            if name in state:
                buffer.copy_(state[name])


def ema_decay_at(decay: float, step: int) -> float:
    """Return the decay after a step, from 0; a small decay at first lets the average forget the start."""
    return min(decay, (step + 1) / (step + 10))


def interpolate_weights(before: State, after: State, alpha: float) -> dict[str, torch.Tensor]:
    """Return (1 − alpha) before + alpha after for floating-point values; other values are those of ``after``.

    This is WiSE-FT (Wortsman et al., CVPR 2022). At alpha 0 and 1 the result equals ``before`` or ``after``,
    bit for bit.
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
    """One metric of one mixture; ``selected`` is true for the selected mixture."""

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
    """Measure mixtures of the weights before and after training, load the best one and return all metrics.

    Args:
        model: model after its training; changed in place.
        before: weights before the training.
        alphas: mixing weights in [0, 1], ascending: 0 is the model before, 1 the model after training.
        measure: returns metrics of the model's current weights on validation rows.
        select: metric that selects the mixture; the smallest alpha wins a tie.
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
