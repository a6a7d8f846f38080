"""Compute the ceilings of a benchmark's instances, for those that models were scored on."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from caramel.benchmarks.ceilings.ceilings import compute_ceilings
from caramel.errors import DataError, format_items
from caramel.evaluation.results.summary import MACRO, build_subset_masks
from caramel.interfaces.benchmark import ABSENT, Benchmark, Comparisons, Task
from caramel.io.validators import format_value


def compute_task_ceilings(task: Task, benchmark: Benchmark, scored: Collection[str] | None) -> pd.DataFrame:
    """Return the ceilings of a benchmark's metrics with ``ceilings.CEILING_COLUMNS``.

    The subsets are those of table ``metrics``: ``all``, ``macro`` and further means, and each subset.

    Args:
        task: of the benchmark; its images are known by name and not opened.
        benchmark: its metrics, macro subsets and means.
        scored: ids of the instances that count; None: all of them.

    Raises:
        DataError: the benchmark ranks candidates, or the task lacks a scored instance.
    """
    if not isinstance(task, Comparisons):
        raise DataError(
            f"Benchmark {benchmark.name!r} ranks candidates. Ceilings are known only for benchmarks that compare "
            f"captions or images of one instance."
        )
    rows = task.rows
    if scored is not None:
        if lacking := sorted(set(scored) - set(rows["instance_id"])):
            raise DataError(
                f"Instances that were scored but are not in the files of benchmark {benchmark.name!r}: {len(lacking)}\n"
                f"{format_items([format_value(name) for name in lacking])}\nGive the folder of the same release."
            )
        rows = rows[rows["instance_id"].isin(set(scored))].reset_index(drop=True)
    masks = build_subset_masks(rows)
    macro = [name for name in masks if name != "all" and benchmark.macro(name)]
    images = {
        name: rows[name].astype(object).where(rows[name] != ABSENT, None)
        for name in ("image", "negative_image")
    }
    return compute_ceilings(
        rows.assign(**images), benchmark.metrics, masks, {MACRO: macro, **benchmark.means}
    )
