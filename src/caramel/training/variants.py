"""The methods of a fine-tuning as its settings have them, and whether there is what they train on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.errors import BackendError, ConfigError
from caramel.interfaces.method import Method
from caramel.models.open_clip.checkpoints import build_model, read_folder
from caramel.models.open_clip.patch_tokens import explain_missing_tokens
from caramel.registry import METHODS
from caramel.schemas.io import read_table
from caramel.schemas.training import TRAINING
from caramel.training.data.batch import count_rows_per_step
from caramel.training.data.examples import check_rows


def set_up(variant: str, negatives: int | None, weights: Mapping[str, float]) -> Method:
    """Return a method with so many negatives of a row, if it takes any and a number is given, and with other weights."""
    method = METHODS[variant]
    number = negatives if negatives is not None and method.negatives else method.negatives
    return replace(method, negatives=number, weights={**method.weights, **weights})


def resolve_steps(method: Method, settings: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return settings of ``contrastive.fit`` in which passes through the rows, where ``epochs`` has them, are steps.

    Args:
        method: that is trained by.
        settings: of the stage; without ``epochs`` its ``steps`` and ``checkpoint_every`` stay, else it is
            measured ``evals_per_epoch`` times in the steps of a pass, and at the end.
        number: train rows.

    Raises:
        ConfigError: the warm-up outlasts the training.
    """
    resolved = dict(settings)
    epochs, evals_per_epoch = resolved.pop("epochs"), resolved.pop("evals_per_epoch")
    if epochs is not None:
        steps_per_epoch = max(
            1, number // count_rows_per_step(method, resolved["batch_size"], bool(method.neighbours))
        )
        resolved |= {
            "steps": epochs * steps_per_epoch,
            "checkpoint_every": max(1, steps_per_epoch // evals_per_epoch),
        }
    if resolved["warmup_steps"] > resolved["steps"]:
        passes = f", which are {epochs} passes through {number} rows" if epochs is not None else ""
        raise ConfigError(
            f"finetune.warmup_steps = {resolved['warmup_steps']}: method {method.name!r} trains for {resolved['steps']} steps{passes}, and its "
            f"learning rate would never be reached. Take a shorter warm-up, or more steps."
        )
    return resolved


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


def check_settings(variant: str, settings: Mapping[str, Any], number: int, nproc: int) -> None:
    """Look whether a variant can be trained on so many rows as its settings say.

    Raises:
        ConfigError: as in ``in_steps`` and ``check_shares``.
    """
    method = set_up(variant, settings["negatives"], {})
    resolve_steps(method, settings, number)
    check_shares(method, number, settings["batch_size"], nproc)


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
