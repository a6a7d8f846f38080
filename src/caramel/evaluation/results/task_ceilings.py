"""Compute the ceilings of a benchmark's instances, and the chance of its queries, for those that models were scored on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pandas as pd

from caramel.benchmarks.ceilings.ceilings import compute_ceilings
from caramel.benchmarks.ceilings.recall_ceilings import compute_recall_ceilings, compute_recall_chance
from caramel.errors import DataError, format_items
from caramel.evaluation.results.summary import MACRO, build_subset_masks
from caramel.interfaces.benchmark import ABSENT, Benchmark, Rankings, Task
from caramel.io.validators import format_value


def compute_task_ceilings(task: Task, benchmark: Benchmark, scored: Collection[str] | None) -> pd.DataFrame:
    """Return the ceilings of a benchmark's metrics with ``ceilings.CEILING_COLUMNS``.

    The subsets are those of table ``metrics``: ``all``, ``macro`` and further means, and each subset.

    Args:
        task: of the benchmark; its images are known by name and not opened.
        benchmark: its metrics, macro subsets and means.
        scored: ids of the instances that count; None: all of them.

    Raises:
        DataError: the task lacks a scored instance.
    """
    task = _select_scored(task, benchmark, scored)
    masks = build_subset_masks(task.rows)
    means = _list_means(benchmark, masks)
    if isinstance(task, Rankings):
        return compute_recall_ceilings(task, benchmark.metrics, masks, means)
    images = {
        name: task.rows[name].astype(object).where(task.rows[name] != ABSENT, None)
        for name in ("image", "negative_image")
    }
    return compute_ceilings(task.rows.assign(**images), benchmark.metrics, masks, means)


def compute_task_chance(task: Rankings, benchmark: Benchmark, scored: Collection[str] | None) -> pd.DataFrame:
    """Return the chance of a benchmark that ranks candidates with ``recall_ceilings.CHANCE_COLUMNS``.

    Arguments and errors are those of ``compute_task_ceilings``.
    """
    selected = _select_scored(task, benchmark, scored)
    assert isinstance(selected, Rankings)
    masks = build_subset_masks(selected.rows)
    return compute_recall_chance(selected, benchmark.metrics, masks, _list_means(benchmark, masks))


def _list_means(benchmark: Benchmark, subsets: Collection[str]) -> dict[str, Sequence[str]]:
    """Return the members of each mean of a benchmark; ``macro`` first."""
    macro = [name for name in subsets if name != "all" and benchmark.macro(name)]
    return {MACRO: macro, **benchmark.means}


def _select_scored(task: Task, benchmark: Benchmark, scored: Collection[str] | None) -> Task:
    """Return the task of the scored instances, with all images, texts and pools."""
    if scored is None:
        return task
    if lacking := sorted(set(scored) - set(task.rows["instance_id"])):
        raise DataError(
            f"Instances that were scored but are not in the files of benchmark {benchmark.name!r}: {len(lacking)}\n"
            f"{format_items([format_value(name) for name in lacking])}\nGive the folder of the same release."
        )
    rows = task.rows[task.rows["instance_id"].isin(set(scored))].reset_index(drop=True)
    return replace(task, rows=rows)
