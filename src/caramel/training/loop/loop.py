"""Run a training loop that resumes after a kill and gives the same weights.

A step's batch depends only on the seed and the step number. So the state consists of the weights, the
optimiser and the step number. The last two checkpoints are kept, in case one is broken.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from tqdm import tqdm

from caramel.errors import ConfigError, DataError, format_items
from caramel.interfaces.trainer import Curve
from caramel.io.files import save_hashed, verify_hash
from caramel.models.devices import disable_tf32, translate_memory_errors

if TYPE_CHECKING:
    import torch

Made = TypeVar("Made")
CHECKPOINTS = 2  # number of checkpoints that are kept
CHECK_EVERY = 10  # steps: each check must wait for the GPU
CURE = (
    "Lower `batch_size` (or finetune.micro_batch_size: the same gradient in less memory), "
    "or set run.precision: bf16."
)


@dataclass
class Training(Generic[Made]):
    """The parts and the state of a training run.

    Attributes:
        modules: modules that are saved and restored by name.
        optimizer: the optimiser; each group's ``lr`` is its peak learning rate.
        batch: maps a step number, from 0, to the batch of the step.
        loss: maps a batch to its loss.
        steps: number of steps.
        warmup_steps: steps of linear warm-up.
        checkpoint_every: steps between checkpoints.
        seed: numbers that seed torch's draws of each step, such as dropout, so that they depend neither on what this
            process ran before nor on a crash.
        measure: returns validation metrics; runs at each checkpoint and at the end.
        on_points: called with the new points of the curve and with ``waiting_share``. This is the share, in
            [0, 1], of the steps' time since the start that was spent waiting for batches. It is not part of
            the curve, which is the same in every run.
        after_step: runs after each update, for example for an average of the weights.
        select: metric by which weights are selected at the end (``best_step``); "" keeps the last weights.
        rows: returns the names of a batch's rows by step number, for messages.
        patience: training ends if the metric ``select`` has not improved for this many checkpoints; None:
            never.
        grad_clip_norm: a gradient with a larger norm is scaled to this norm; None: no limit.
        writes: whether this process writes checkpoints. Of processes that train together only one writes
            them, and all resume from them.
        curve: the points so far.
        best: the best weights so far, by module.
    """

    modules: dict[str, torch.nn.Module]
    optimizer: torch.optim.Optimizer
    batch: Callable[[int], Made]
    loss: Callable[[Made], torch.Tensor]
    steps: int
    warmup_steps: int
    checkpoint_every: int
    seed: Sequence[int]
    measure: Callable[[], dict[str, float]] | None = None
    on_points: Callable[[Curve], None] | None = None
    after_step: Callable[[int], None] | None = None
    select: str = ""
    rows: Callable[[int], Sequence[str]] | None = None
    patience: int | None = None
    grad_clip_norm: float | None = 1.0
    writes: bool = True
    curve: Curve = field(default_factory=list)
    best: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)


def cosine_lr(step: int, *, peak: float, warmup_steps: int, steps: int) -> float:
    """Return the learning rate at a step: linear warm-up, then cosine decay to zero."""
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / max(1, steps - warmup_steps)))


def build_param_groups(modules: Sequence[torch.nn.Module], decay: float) -> list[dict[str, object]]:
    """Return parameter groups: weight decay on matrices, none on gains, biases, norms and scales."""
    parameters = [p for m in modules for p in m.parameters() if p.requires_grad]
    return [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]


def best_step(curve: Curve, select: str) -> int:
    """Return the step whose weights are kept: the earliest one with the largest value of the metric.

    Args:
        curve: curve of a whole training, at least one point.
        select: name of a metric that is better when larger; if it was not measured, the last step is kept.
    """
    measured = [(value, -step) for step, name, value in curve if name == select]
    return -max(measured)[1] if measured else curve[-1][0]


def should_stop_early(curve: Curve, select: str, patience: int | None) -> bool:
    """Return whether the metric was measured at least ``patience`` times after its best value."""
    values = [value for _, name, value in curve if name == select]
    return patience is not None and bool(values) and len(values) - 1 - values.index(max(values)) >= patience


def run_training(training: Training[Made], *, scratch: Path, title: str) -> Curve:
    """Train to the last step, resuming from the newest intact checkpoint in ``scratch``; return the curve.

    A loss in the curve is the mean since the last point, so the curve is the same after a crash. At the end,
    the modules have the weights of ``best_step``.

    Raises:
        ConfigError: the loss, its gradient or a weight is no longer finite.
        DataError: a checkpoint in ``scratch`` belongs to another model.
        ResourceError: a step does not fit into memory.
    """
    import torch

    parameters = [p for group in training.optimizer.param_groups for p in group["params"]]
    longest = math.inf if training.grad_clip_norm is None else training.grad_clip_norm
    peak = [group["lr"] for group in training.optimizer.param_groups]
    start = next((_restore_checkpoint(training, p) for p in _list_checkpoints(scratch) if verify_hash(p)), 0)
    losses: list[torch.Tensor] = []
    unchecked: list[tuple[int, torch.Tensor, torch.Tensor]] = []
    waited = spent = 0.0  # seconds
    bar = tqdm(
        range(start, training.steps),
        initial=start,
        total=training.steps,
        desc=title,
        unit="step",
        disable=None,
    )
    for step in bar:
        if should_stop_early(training.curve, training.select, training.patience):
            break
        began = time.perf_counter()
        for group, rate in zip(training.optimizer.param_groups, peak, strict=True):
            group["lr"] = cosine_lr(step, peak=rate, warmup_steps=training.warmup_steps, steps=training.steps)
        with translate_memory_errors(f"Training {title!r}", str(parameters[0].device), CURE), disable_tf32():
            training.optimizer.zero_grad(set_to_none=True)
            requested_at = time.perf_counter()
            batch = training.batch(step)
            waited += time.perf_counter() - requested_at
            torch.manual_seed(
                int(np.random.SeedSequence([*training.seed, step]).generate_state(1, np.uint64)[0])
            )
            loss = training.loss(batch)
            if loss.requires_grad:  # otherwise the gradient has been computed already
                loss.backward()  # type: ignore[no-untyped-call]
            norm = torch.nn.utils.clip_grad_norm_(parameters, longest)
            training.optimizer.step()
        losses.append(loss.detach().clone())  # the scalar of mse_loss keeps memory of its inputs' size
        unchecked.append((step, losses[-1], norm))
        if training.after_step:
            training.after_step(step)
        done = step + 1
        saves = done % training.checkpoint_every == 0 or done == training.steps
        if saves or len(unchecked) == CHECK_EVERY:
            for number, *values in unchecked:
                named = dict(zip(("loss", "gradient"), values, strict=True))
                _check_finite(named, number, scratch, title, training.rows)
            unchecked.clear()
        spent += time.perf_counter() - began
        bar.set_postfix_str(f"{waited / spent:.0%} waiting for data", refresh=False)
        if saves:
            _check_finite(_collect_weights(training), step, scratch, title, training.rows)
            points = [(done, "loss", float(torch.stack(losses).mean()))]
            losses.clear()
            if training.measure:
                points += [(done, name, value) for name, value in training.measure().items()]
            training.curve += points
            if training.select and best_step(training.curve, training.select) == done:
                training.best = {
                    name: {key: value.detach().clone() for key, value in module.state_dict().items()}
                    for name, module in training.modules.items()
                }
            if training.on_points:
                training.on_points([*points, (done, "waiting_share", waited / spent)])
            if training.writes:
                _save_checkpoint(training, scratch, done)
    for name, weights in training.best.items():
        training.modules[name].load_state_dict(weights)
    return training.curve


def _check_finite(
    values: Mapping[str, torch.Tensor],
    step: int,
    scratch: Path,
    title: str,
    rows: Callable[[int], Sequence[str]] | None,
) -> None:
    """Raise a ConfigError that names the batch's ``rows`` if a value of a step is NaN or infinite."""
    import torch

    for name, value in values.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            last = next(
                (f"the checkpoint before this step is {str(p)!r}" for p in _list_checkpoints(scratch)), ""
            )
            names = f"Rows of the batch:\n{format_items(list(rows(step)))}\n" if rows else ""
            raise ConfigError(
                f"Training {title!r} stopped at step {step + 1}: its {name} is not finite, so the model "
                f"cannot learn any further; {last or 'there is no checkpoint before this step'}.\n{names}"
                f"Lower `lr`, increase `warmup_steps`, or set run.precision: fp32. Then run `dvc repro`."
            )


def _collect_weights(training: Training[Any]) -> dict[str, torch.Tensor]:
    """Return all weights, with the module in their names."""
    return {
        f"weight {name}.{key}": value
        for name, module in training.modules.items()
        for key, value in module.state_dict().items()
    }


def _list_checkpoints(scratch: Path) -> list[Path]:
    """Return the checkpoint files, newest first."""
    return sorted(scratch.glob("step-*.pt"), reverse=True)


def _save_checkpoint(training: Training[Any], scratch: Path, step: int) -> None:
    """Save a checkpoint; delete old checkpoints and partial files of a killed run."""
    import torch

    for half in scratch.glob(".step-*"):
        half.unlink()
    state = {
        "step": step,
        "curve": training.curve,
        "optimizer": training.optimizer.state_dict(),
        "modules": {name: module.state_dict() for name, module in training.modules.items()},
        "best": training.best,
    }
    save_hashed(scratch / f"step-{step:08}.pt", lambda temporary: torch.save(state, temporary))
    for path in _list_checkpoints(scratch)[CHECKPOINTS:]:
        path.unlink()


def _restore_checkpoint(training: Training[Any], path: Path) -> int:
    """Load the checkpoint into the training run and return the number of steps done.

    Raises:
        DataError: the checkpoint belongs to another model.
    """
    import torch

    state = torch.load(
        path, weights_only=True, map_location="cpu"
    )  # modules and optimiser are on their devices already
    try:
        for name, module in training.modules.items():
            module.load_state_dict(state["modules"][name])
        training.optimizer.load_state_dict(state["optimizer"])
    except (RuntimeError, ValueError, KeyError) as error:  # other sizes, other weights, another method
        raise DataError(
            f"Checkpoint {str(path)!r} belongs to another model or method than this training: "
            f"{' '.join(str(error).split())[:300]}. Remove {str(path.parent)!r} to train from "
            f"the start, or restore the settings of the checkpoint."
        ) from error
    training.curve[:] = [tuple(point) for point in state["curve"]]
    training.best = state["best"]
    step: int = state["step"]
    return step
