"""Fine-tuned variants of the base model: one Ray Tune experiment of variants × seeds, perhaps after a search."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel.errors import ConfigError
from caramel.io.image_store import shards_of
from caramel.runtime.mlflow import tracking
from caramel.runtime.ray.asha import Halving
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.runtime.ray.sharded_map import Executor, compute_fingerprint
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.training.recipes.finetune_trial import CHECKPOINT, MEASURED_BY, measured_by
from caramel.training.recipes.search import COLUMNS, Candidate, Searched, candidates, searched, trial_point
from caramel.training.tracked import curve_frame
from caramel.training.tracked_trials import Trials
from caramel.training.variants import check_data, check_settings, split_rows
from caramel.training.weight_averaging import Mix


class Tuned(NamedTuple):
    """What was measured on val: curves (model, step, metric, value, kept), and mixtures (model, alpha, metric, value, kept).

    And what a search tried (``search.COLUMNS``), with what each variant has of its own after it.
    """

    curves: pd.DataFrame
    mixtures: pd.DataFrame
    searched: pd.DataFrame
    own: dict[str, Mapping[str, Any]]


def finetune(
    *,
    variants: Sequence[str],
    seeds: Sequence[int],
    base: str,
    rows: str,
    images: str,
    data: Sequence[str],
    own: Mapping[str, Mapping[str, Any]],
    negatives: int | None,
    mix: Sequence[float],
    settings: Mapping[str, Any],
    search: Mapping[str, Any] | None,
    processes: int,
    workers: int,
    executor: Executor,
    folder: Path,
    out: Path,
    root: Path,
    gpus: float = 0.0,
) -> Tuned:
    """Fine-tune all variants × seeds and copy their checkpoints to ``out/<variant>-<seed>``.

    Args:
        variants, seeds: the grid.
        folder: where resumable trials lie.
        out: the stage's output folder.
        gpus: GPUs of one process of a trial.
        data: DVC paths to record as the runs' inputs.
        root: folder that holds ``mlruns/``.
        own: by variant, what it has of its own; see ``trained``.
        search: what is tried first, and the best on val of it joins ``own``: space, draws and seed as in
            ``search.candidates``, seeds and asha ({"first", "factor"}, or None) as in ``search.searched``.
        base, rows, images, negatives, mix, settings, processes, workers: as in ``finetune_trial``.
        executor: as in ``tune_grid``.

    Raises:
        ConfigError, DataError, BackendError: as in ``check_data`` and ``check_settings``, before the first trial; or a
            search has no val rows, or no checkpoint at which a trial could end early.
    """
    train_rows, val_rows = split_rows(rows)
    check_data(variants, train_rows, base)
    common = {"negatives": negatives, "mix": list(mix), **settings}
    tried = {} if search is None else candidates(search, own=own, common=common)
    for variant in variants:
        for mine in [own.get(variant, {}), *(each.own for each in tried.get(variant, ()))]:
            check_settings(variant, {**common, **mine}, len(train_rows), processes)
    trials = Trials(
        {
            "base": LocalFile(base),
            "rows": LocalFile(rows),
            "images": LocalFile(images, around=tuple(shards_of(images, read_table(IMAGES, images)))),
            "negatives": negatives,
            "mix": list(mix),
            "settings": dict(settings),
            "processes": processes,
        },
        common, len(train_rows), workers, executor, folder, gpus, list(data), root,
    )  # fmt: skip
    found = Searched({}, pd.DataFrame(columns=COLUMNS))
    if search is not None:
        trials, found = _search(trials, tried, search, val_rows)
    final = {**own, **found.own}
    points = [trial_point(variant, seed, final.get(variant, {})) for variant in variants for seed in seeds]
    curves, mixtures = [], []
    for result, scratch in trials.run(points):
        name = f"{result['variant']}-{result['seed']}"
        shutil.copytree(scratch / CHECKPOINT, out / name)
        curves.append(curve_frame(result["curve"], name, result["select"]))
        mixtures += [(name, *mixture) for mixture in result["mixtures"]]
    columns = ["model", *Mix._fields]
    return Tuned(
        pd.concat(curves, ignore_index=True), pd.DataFrame(mixtures, columns=columns), found.table, final
    )


def _search(
    trials: Trials,
    tried: Mapping[str, Sequence[Candidate]],
    search: Mapping[str, Any],
    val_rows: pd.DataFrame,
) -> tuple[Trials, Searched]:
    """Return what was found, and trials whose runs are those of the search; see ``finetune``."""
    if val_rows.empty:
        raise ConfigError(
            "finetune.search: settings are chosen on the rows of the val split, and there are none. Give some, or take "
            "finetune.search: null."
        )
    select = MEASURED_BY[measured_by(val_rows)]
    points = [
        trial_point(v, seed, c.own) for v, each in tried.items() for c in each for seed in search["seeds"]
    ]
    ending: dict[str, Halving] = {}
    if search["asha"]:
        first, factor = search["asha"]["first"], search["asha"]["factor"]
        for variant, each in tried.items():
            counts = [trials.checkpoints(trial_point(variant, 0, c.own)) for c in each]
            if min(counts) <= first:
                raise ConfigError(
                    f"finetune.search.asha.first = {first}: method {variant!r} is measured {min(counts)} times in a training, the last "
                    f"time at its end, so that no trial could end early. Take a smaller finetune.checkpoint_every, or asha: null."
                )
            ending[variant] = Halving(select, first, factor, max(counts))
    parent = tracking.plan_run(
        "finetune search",
        key=compute_fingerprint(__name__, "search", trials.names(points), dict(search)),
        params={**search, "metric": select, "repeatable": not ending},
        data=trials.data,
        tags={"stage": "search"},
        root=trials.root,
    )
    trials = replace(trials, parent=parent.run_id)
    found = searched(trials.run, tried, seeds=search["seeds"], halving=ending, metric=select)
    with tracking.open_run(parent):
        import mlflow

        mlflow.log_text(found.table.to_csv(index=False), "searched.csv")  # log_table would append to it
        mlflow.log_dict(found.own, "own.json")
    return trials, found
