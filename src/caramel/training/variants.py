"""The methods of a fine-tuning as its settings have them, and whether there is what they train on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from caramel.errors import BackendError, ConfigError
from caramel.interfaces.method import Method
from caramel.interfaces.training_settings import ContrastiveConfig
from caramel.models.open_clip.checkpoints import build_model, read_folder
from caramel.models.open_clip.patch_tokens import explain_missing_tokens
from caramel.registry import METHODS
from caramel.schemas.io import read_table
from caramel.schemas.training import TRAINING
from caramel.training.data.batch import count_rows_per_step
from caramel.training.data.examples import check_rows
from caramel.utils.typed_settings import build_settings


def set_up(variant: str, negatives: int | None, weights: Mapping[str, float]) -> Method:
    """Return a method with so many negatives of a row, if it takes any and a number is given, and with other weights."""
    method = METHODS[variant]
    number = negatives if negatives is not None and method.negatives else method.negatives
    return replace(method, negatives=number, weights={**method.weights, **weights})


# Keys of the section ``finetune`` that are no settings of a variant.
GRID_KEYS = frozenset({"variants", "seeds", "overrides", "search", "nproc"})


@dataclass(frozen=True)
class Schedule:
    """How long a variant is trained, as the params say it.

    Attributes:
        epochs: passes through the rows, > 0, in place of ``steps`` and ``checkpoint_every``. None: these count.
        evals_per_epoch: with epochs: checkpoints in a pass, > 0; there is another one at the end.
        steps, checkpoint_every, batch_size: as in ``LoopConfig``.
        warmup_steps: as in ``OptimizerConfig``.
    """

    epochs: int | None
    evals_per_epoch: int
    steps: int
    checkpoint_every: int
    batch_size: int
    warmup_steps: int


def resolve_steps(method: Method, schedule: Schedule, number: int) -> tuple[int, int]:
    """Return the steps of a training on so many rows, and those from checkpoint to checkpoint.

    Raises:
        ConfigError: the warm-up outlasts the training.
    """
    steps, checkpoint_every, epochs = schedule.steps, schedule.checkpoint_every, schedule.epochs
    if epochs is not None:
        rows = count_rows_per_step(method, schedule.batch_size, bool(method.neighbours))
        steps_per_epoch = max(1, number // rows)
        steps = epochs * steps_per_epoch
        checkpoint_every = max(1, steps_per_epoch // schedule.evals_per_epoch)
    if schedule.warmup_steps > steps:
        passes = f", which are {epochs} passes through {number} rows" if epochs is not None else ""
        raise ConfigError(
            f"finetune.warmup_steps = {schedule.warmup_steps}: method {method.name!r} trains for {steps} steps{passes}, and its "
            f"learning rate would never be reached. Take a shorter warm-up, or more steps."
        )
    return steps, checkpoint_every


@dataclass(frozen=True)
class VariantConfig:
    """How one variant is trained with one seed.

    Attributes:
        method: with the variant's negatives and weights of terms.
        training: its steps are resolved where the params have epochs.
        wise_ft_alphas: weights in [0, 1] of the trained model in mixtures with the base, ascending; empty: no mixture.
        keep: which weights are kept: best on val, or last.
    """

    method: Method
    training: ContrastiveConfig
    wise_ft_alphas: tuple[float, ...]
    keep: Literal["best", "last"]


def resolve_variant(
    point: Mapping[str, Any], common: Mapping[str, Any], *, rows: int, num_workers: int
) -> VariantConfig:
    """Return the settings of a trial: the one place where params and a variant's overrides of them become typed.

    Args:
        point: {"variant", "seed"}, and "overrides": what the variant has of its own.
        common: settings of all variants by their keys in the params, with device and precision.
        rows: train rows.
        num_workers: as in ``LoopConfig``.

    Raises:
        ConfigError: a key is unknown or missing, or the warm-up outlasts the training.
    """
    values = {**common, **point.get("overrides", {})}
    schedule = build_settings(
        Schedule, {field.name: values[field.name] for field in fields(Schedule) if field.name in values}
    )
    method = set_up(point["variant"], values.pop("negatives"), values.pop("weights", {}))
    steps, checkpoint_every = resolve_steps(method, schedule, rows)
    del values["epochs"], values["evals_per_epoch"]
    values |= {"steps": steps, "checkpoint_every": checkpoint_every, "method": method}
    return build_settings(VariantConfig, {**values, "seed": point["seed"], "num_workers": num_workers})


def list_variant_params(config: VariantConfig) -> dict[str, Any]:
    """Return the settings by their keys in the params, as runs log them: with weights of terms, without ``num_workers``."""
    training = config.training
    groups: list[Any] = [training.loop, training.optimizer, training.scope, training.compute]
    params = {name: value for group in groups for name, value in asdict(group).items()}
    del params["num_workers"]
    return {
        **params,
        "wise_ft_alphas": list(config.wise_ft_alphas),
        "keep": config.keep,
        **{f"weight_{name}": weight for name, weight in config.method.weights.items()},
        "negatives": config.method.negatives,
    }


def split_rows(path: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the train and the val rows of a table ``training``."""
    table = read_table(TRAINING, path)
    return table[table["split"] == "train"], table[table["split"] == "val"]


def check_data(variants: Iterable[str], train_rows: pd.DataFrame, base: str | Path) -> None:
    """Look whether there is all that some methods train on, before one of them does.

    Args:
        variants: names of methods.
        train_rows: of table ``training``.
        base: checkpoint folder of the model that is trained.

    Raises:
        DataError: the rows lack what one of them needs (``examples.require``).
        BackendError: the model does.
    """
    methods = [METHODS[variant] for variant in variants]
    for method in methods:
        check_rows(train_rows, method)
    in_parts = [method.name for method in methods if method.parts]
    if in_parts and (why := _explain_missing_parts(Path(base))):
        raise BackendError(
            f"Method {in_parts[0]!r} trains on patches and words, which the model at {str(base)!r} does not give: {why}. Leave "
            f"{in_parts[0]!r} out of finetune.variants, or take another base."
        )


def check_variant(point: Mapping[str, Any], common: Mapping[str, Any], *, rows: int, nproc: int) -> None:
    """Look whether so many processes can train a variant on so many rows as its settings say.

    Raises:
        ConfigError: as in ``resolve_variant`` and ``check_shares``.
    """
    config = resolve_variant(point, common, rows=rows, num_workers=0)
    check_shares(config.method, rows, config.training.loop.batch_size, nproc)


def check_shares(method: Method, number: int, captions: int, nproc: int) -> None:
    """Look whether the processes of a training can share each batch alike.

    Args:
        method: that is trained by.
        number: train rows.
        captions: of a batch.
        nproc: processes of a training.

    Raises:
        ConfigError: the rows of a batch are not divisible by the processes.
    """
    if nproc == 1:
        return
    beside = 2 if method.neighbours else 1
    size = beside * min(number, count_rows_per_step(method, captions, bool(method.neighbours)))
    if size % nproc:
        few = f", all {number} that there are" if size == number else ""
        fitting = [n for n in range(2, size + 1) if size % n == 0]
        raise ConfigError(
            f"finetune.nproc = {nproc}: a batch of {captions} captions is {size} rows of method {method.name!r}{few}, which "
            f"so many processes cannot share alike. Take another finetune.batch_size, or nproc: 1, {', '.join(map(str, fitting))}."
        )


def _explain_missing_parts(base: Path) -> str:
    import torch

    config, _ = read_folder(base)
    with torch.device("meta"):  # what it is made of, without weights
        return explain_missing_tokens(build_model(config, str(base)))
