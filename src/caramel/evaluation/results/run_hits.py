"""Compute the hits of all runs on one benchmark once, for all tables that use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.benchmarks.metrics import compute_outcomes
from caramel.evaluation.results.summary import align_runs, parse_variant
from caramel.utils.arrays import Floats


class RunHits(NamedTuple):
    """Hits of all runs on a benchmark.

    Attributes:
        benchmark: name of the benchmark.
        metrics: names of the columns of the hits.
        rows: the first run's n rows of table ``similarities``.
        hits: by model, in the order of the table: (n, metrics) in [0, 1], NaN where the model has no score.
    """

    benchmark: str
    metrics: tuple[str, ...]
    rows: pd.DataFrame
    hits: Mapping[str, Floats]

    def select_metrics(self, metrics: Sequence[str]) -> RunHits:
        """Return the hits of some of the metrics."""
        columns = [self.metrics.index(name) for name in metrics]
        chosen = {model: hits[:, columns] for model, hits in self.hits.items()}
        return self._replace(metrics=tuple(metrics), hits=chosen)

    def group_by_variant(self) -> dict[str, Floats]:
        """Return the hits of each variant, (seeds, n, metrics); models named ``<variant>-<seed>`` are its seeds."""
        runs_by_variant: dict[str, list[Floats]] = {}
        for model, hits in self.hits.items():
            runs_by_variant.setdefault(parse_variant(model), []).append(hits)
        return {variant: np.stack(runs) for variant, runs in runs_by_variant.items()}


def compute_run_hits(similarities: pd.DataFrame, benchmark: str, metrics: Sequence[str]) -> RunHits:
    """Return the hits of every model in table ``similarities`` on a benchmark; empty if no model was scored on it.

    Raises:
        DataError: the models did not score the same instances, or scored different releases.
    """
    rows = similarities[similarities["benchmark"] == benchmark]
    runs = {str(name): run.reset_index(drop=True) for name, run in rows.groupby("model", sort=False)}
    first = next(iter(runs.values()), rows)
    hits = {
        name: compute_outcomes(run, metrics).hits.to_numpy(float)
        for name, run in zip(runs, align_runs(list(runs.values())), strict=True)
    }
    return RunHits(benchmark, tuple(metrics), first, hits)
