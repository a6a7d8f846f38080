"""Resolve the settings of fine-tuning variants, and check that data and model suit their methods."""

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
from caramel.training.data.row_units import RowCounts, Unit
from caramel.utils.typed_settings import build_settings


def set_up(variant: str, negatives: int | None, weights: Mapping[str, float]) -> Method:
    """Return a method with the given weights and, if it uses negatives, the given number of them.

    With ``negatives`` None, the method keeps its own number.
    """
    method = METHODS[variant]
    number = negatives if negatives is not None and method.negatives else method.negatives
    return replace(method, negatives=number, weights={**method.weights, **weights})


# Keys of the section ``finetune`` that are not settings of a variant.
GRID_KEYS = frozenset({"variants", "seeds", "overrides", "search", "nproc"})


@dataclass(frozen=True)
class Schedule:
    """How long a variant is trained, as given in the params.

    Attributes:
        epochs: passes through the rows, > 0; replaces ``steps`` and ``checkpoint_every``. None: those are
            used.
        evals_per_epoch: checkpoints per epoch, > 0, plus one at the end; used only with ``epochs``.
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
    """Return the number of steps of a training on ``number`` rows, and the steps between checkpoints.

    Raises:
        ConfigError: the warm-up is longer than the training.
    """
    steps, checkpoint_every, epochs = schedule.steps, schedule.checkpoint_every, schedule.epochs
    if epochs is not None:
        rows = count_rows_per_step(method, schedule.batch_size, bool(method.neighbours))
        steps_per_epoch = max(1, number // rows)
        steps = epochs * steps_per_epoch
        checkpoint_every = max(1, steps_per_epoch // schedule.evals_per_epoch)
    if schedule.warmup_steps > steps:
        passes = f" (epochs: {epochs}, rows: {number})" if epochs is not None else ""
        raise ConfigError(
            f"finetune.warmup_steps = {schedule.warmup_steps}: method {method.name!r} trains for {steps} "
            f"steps{passes}, so it would never reach its learning rate. Set a shorter warm-up, or more steps."
        )
    return steps, checkpoint_every


@dataclass(frozen=True)
class VariantConfig:
    """How one variant is trained with one seed.

    Attributes:
        method: method with the variant's number of negatives and weights of loss terms.
        training: settings of the training; epochs of the params are converted to steps.
        wise_ft_alphas: weights in [0, 1] of the trained model in mixtures with the base, ascending; empty: no
            mixture.
        keep: which weights are kept: the best on val, or the last.
        rows: what a row is; see ``row_units``.
        selection_metric: what is best on val: Group (or accuracy without negative images), or the accuracy of
            ``batch_accuracy``.
    """

    method: Method
    training: ContrastiveConfig
    wise_ft_alphas: tuple[float, ...]
    keep: Literal["best", "last"]
    rows: Unit
    selection_metric: Literal["group", "contrastive"]


def resolve_variant(
    point: Mapping[str, Any], common: Mapping[str, Any], *, counts: RowCounts, num_workers: int
) -> VariantConfig:
    """Return the typed settings of a trial. Only this function converts the params and a variant's overrides.

    Args:
        point: {"variant", "seed"}, and optionally "overrides": the settings that differ from ``common``.
        common: settings of all variants by their keys in the params, with device and precision.
        counts: numbers of train pairs and negatives.
        num_workers: as in ``LoopConfig``.

    Raises:
        ConfigError: a key is unknown or missing, or the warm-up is longer than the training.
    """
    values = {**common, **point.get("overrides", {})}
    schedule = build_settings(
        Schedule, {field.name: values[field.name] for field in fields(Schedule) if field.name in values}
    )
    method = set_up(point["variant"], values.pop("negatives"), values.pop("weights", {}))
    steps, checkpoint_every = resolve_steps(method, schedule, counts.count(method, values["rows"]))
    del values["epochs"], values["evals_per_epoch"]
    values |= {"steps": steps, "checkpoint_every": checkpoint_every, "method": method}
    return build_settings(VariantConfig, {**values, "seed": point["seed"], "num_workers": num_workers})


def list_variant_params(config: VariantConfig) -> dict[str, Any]:
    """Return the settings by their keys in the params, as runs log them.

    They include the weights of loss terms, but not ``num_workers``.
    """
    training = config.training
    groups: list[Any] = [training.loop, training.optimizer, training.scope, training.compute]
    params = {name: value for group in groups for name, value in asdict(group).items()}
    del params["num_workers"]
    return {
        **params,
        "wise_ft_alphas": list(config.wise_ft_alphas),
        "keep": config.keep,
        "rows": config.rows,
        "selection_metric": config.selection_metric,
        **{f"weight_{name}": weight for name, weight in config.method.weights.items()},
        "negatives": config.method.negatives,
    }


def split_rows(path: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the train and the val rows of a table ``training``, with its lists in Arrow."""
    train, val = (
        read_table(TRAINING, path, only=("split", [name]), arrow_lists=True) for name in ("train", "val")
    )
    return train, val


def check_data(
    variants: Iterable[str], train_rows: pd.DataFrame, base: str | Path, unit: Unit = "pairs"
) -> None:
    """Check, before any training, that the rows and the model have what the methods need.

    Args:
        variants: names of methods.
        train_rows: train rows of the table ``training``.
        base: checkpoint folder of the model to train.
        unit: what a row is; see ``row_units``.

    Raises:
        DataError: the rows lack what a method needs (``check_rows``).
        BackendError: the model lacks what a method needs.
    """
    methods = [METHODS[variant] for variant in variants]
    for method in methods:
        check_rows(train_rows, method, unit)
    tokens = next((method for method in methods if method.parts or method.patches), None)
    if tokens is not None and (why := _explain_missing_parts(Path(base))):
        raise BackendError(
            f"Method {tokens.name!r} trains on patches{' and words' * tokens.parts}, which the model at "
            f"{str(base)!r} does not provide: {why}. Remove {tokens.name!r} from finetune.variants, or use "
            "another base."
        )


def check_variant(
    point: Mapping[str, Any], common: Mapping[str, Any], *, counts: RowCounts, nproc: int
) -> None:
    """Check that a variant's settings allow a training on these numbers of pairs and negatives in ``nproc`` processes.

    Raises:
        ConfigError: as in ``resolve_variant`` and ``check_shares``.
    """
    config = resolve_variant(point, common, counts=counts, num_workers=0)
    rows = counts.count(config.method, config.rows)
    check_shares(config.method, rows, config.training.loop.batch_size, nproc)


def check_shares(method: Method, number: int, captions: int, nproc: int) -> None:
    """Check that the processes of a training can share each batch equally.

    Args:
        method: training method.
        number: number of train rows.
        captions: texts per batch.
        nproc: number of processes of a training.

    Raises:
        ConfigError: the number of rows in a batch is not divisible by ``nproc``.
    """
    if nproc == 1:
        return
    beside = 2 if method.neighbours else 1
    size = beside * min(number, count_rows_per_step(method, captions, bool(method.neighbours)))
    if size % nproc:
        few = f" (all {number} available rows)" if size == number else ""
        fitting = [n for n in range(2, size + 1) if size % n == 0]
        raise ConfigError(
            f"finetune.nproc = {nproc}: a batch of {captions} captions has {size} rows with method "
            f"{method.name!r}{few}, and the processes cannot share these equally. "
            f"Set another finetune.batch_size, or nproc to one of: 1, {', '.join(map(str, fitting))}."
        )


def _explain_missing_parts(base: Path) -> str:
    import torch

    config, _ = read_folder(base)
    with torch.device("meta"):  # the architecture without weights
        return explain_missing_tokens(build_model(config, str(base)))
