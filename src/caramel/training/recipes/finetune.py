"""Fine-tune variants of the base: an optional search, then one Ray Tune experiment of variants × seeds."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel.errors import CaramelError, ConfigError
from caramel.interfaces.settings import Execution
from caramel.registry import METHODS
from caramel.runtime.mlflow import tracking
from caramel.runtime.ray.asha import Halving
from caramel.runtime.ray.sharded_map import compute_fingerprint
from caramel.training.data.row_units import RowCounts
from caramel.training.recipes.finetune_trial import CHECKPOINT, choose_selection_metric, select_deciding_rows
from caramel.training.recipes.search import (
    COLUMNS,
    Candidate,
    SearchConfig,
    SearchResult,
    build_trial_point,
    draw_candidates,
    run_search,
)
from caramel.training.tracked import build_curve_table
from caramel.training.tracked_trials import TrainingInputs, TrialRunner
from caramel.training.variants import check_data, check_variant, split_rows
from caramel.training.weight_averaging import WiseFTPoint


class FinetuneResult(NamedTuple):
    """The metrics on val, and the result of the search.

    Attributes:
        curves: columns model, step, metric, value and kept.
        mixtures: columns model and those of ``WiseFTPoint``.
        searched: the trials of the search (``search.COLUMNS``).
        overrides: by variant, the settings that differ from the common ones, after the search.
    """

    curves: pd.DataFrame
    mixtures: pd.DataFrame
    searched: pd.DataFrame
    overrides: dict[str, Mapping[str, Any]]


def train_variants(
    *,
    variants: Sequence[str],
    seeds: Sequence[int],
    inputs: TrainingInputs,
    common: Mapping[str, Any],
    overrides: Mapping[str, Mapping[str, Any]],
    search: SearchConfig | None,
    nproc: int,
    num_workers: int,
    execution: Execution,
    out: Path,
    root: Path,
) -> FinetuneResult:
    """Fine-tune all variants × seeds and copy their checkpoints to ``out/<variant>-<seed>``.

    Args:
        variants, seeds: the grid.
        inputs: base model and data of the training.
        common: settings of all variants, as in ``resolve_variant``.
        overrides: by variant, the settings that differ from ``common``.
        search: settings to try first; the best on val are added to ``overrides``. None: no search.
        nproc, num_workers, execution, root: as in ``TrialRunner``.
        out: the stage's output folder.

    Raises:
        ConfigError, DataError, BackendError: as in ``check_data`` and ``check_variant``, before the first
            trial.
        ConfigError: a search has no val rows that its metric can use, or no checkpoint at which a trial could end early.
    """
    train_rows, val_rows = split_rows(inputs.rows)
    check_data(variants, train_rows, inputs.base, common["rows"])
    counts = RowCounts.from_rows(train_rows)
    del train_rows  # the trials, which may run in this process, read it again
    tried = {} if search is None else draw_candidates(search, overrides=overrides, common=common)
    for variant in variants:
        for override in [
            overrides.get(variant, {}),
            *(candidate.overrides for candidate in tried.get(variant, ())),
        ]:
            point = build_trial_point(variant, seeds[0], override)
            check_variant(point, common, counts=counts, nproc=nproc)
    trials = TrialRunner(inputs, common, counts, nproc, num_workers, execution, root)
    outcome = SearchResult({}, pd.DataFrame(columns=COLUMNS))
    if search is not None:
        trials, outcome = _search_settings(trials, tried, search, val_rows)
    final = {**overrides, **outcome.overrides}
    points = [
        build_trial_point(variant, seed, final.get(variant, {})) for variant in variants for seed in seeds
    ]
    curves, mixtures = [], []
    for result, scratch in trials.run(points):
        name = f"{result['variant']}-{result['seed']}"
        shutil.copytree(scratch / CHECKPOINT, out / name)
        curves.append(build_curve_table(result["curve"], name, result["select"]))
        mixtures += [(name, *mixture) for mixture in result["mixtures"]]
    columns = ["model", *WiseFTPoint._fields]
    return FinetuneResult(
        pd.concat(curves, ignore_index=True), pd.DataFrame(mixtures, columns=columns), outcome.table, final
    )


def _search_settings(
    trials: TrialRunner,
    tried: Mapping[str, Sequence[Candidate]],
    search: SearchConfig,
    val_rows: pd.DataFrame,
) -> tuple[TrialRunner, SearchResult]:
    """Run the search; return a trial runner whose MLflow runs belong to the search's run, and the result.

    See ``train_variants`` for the arguments and errors.
    """
    if val_rows.empty:
        raise ConfigError(
            "finetune.search selects settings on the rows of the val split, and the val split has no rows. "
            "Add val rows, or set finetune.search: null."
        )
    select = choose_selection_metric(trials.common["selection_metric"], val_rows)
    for variant in tried:
        if select_deciding_rows(select, val_rows, METHODS[variant]).empty:
            raise ConfigError(
                f"finetune.search.space.{variant}: settings are selected by {select!r} on val, and no row of the val split "
                f"has what it needs of method {variant!r}. Remove {variant} from the space, or add such val rows."
            )
    points = [
        build_trial_point(v, seed, c.overrides)
        for v, options in tried.items()
        for c in options
        for seed in search.seeds
    ]
    ending: dict[str, Halving] = {}
    if search.asha:
        first, factor = search.asha.first, search.asha.factor
        for variant, options in tried.items():
            counts = [trials.count_checkpoints(build_trial_point(variant, 0, c.overrides)) for c in options]
            if min(counts) <= first:
                raise ConfigError(
                    f"finetune.search.asha.first = {first}: the number of checkpoints of method {variant!r} "
                    f"is {min(counts)}, including the one at the end, so no trial could end early. "
                    f"Set a smaller finetune.checkpoint_every, or asha: null."
                )
            ending[variant] = Halving(select, first, factor, max(counts))
    parent = tracking.plan_run(
        "finetune search",
        key=compute_fingerprint(__name__, "search", trials.list_names(points), asdict(search)),
        params={**asdict(search), "metric": select, "repeatable": not ending},
        data=trials.inputs.tracked,
        tags={"stage": "search"},
        root=trials.root,
    )
    trials = replace(trials, parent=tracking.create_run(parent))  # before those that belong to it
    try:
        outcome = run_search(trials.run, tried, seeds=search.seeds, halving=ending, metric=select)
    except BaseException:
        with suppress(CaramelError):  # the search's own error is the one to report
            tracking.end_planned_run(parent, "FAILED")
        raise
    with tracking.open_run(parent):
        import mlflow

        mlflow.log_text(outcome.table.to_csv(index=False), "searched.csv")  # log_table would append to it
        mlflow.log_dict(outcome.overrides, "overrides.json")
    return trials, outcome
