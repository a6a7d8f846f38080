"""On how many instances models differ at all: an instance that all runs have right, or none, tells none from another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from caramel.benchmarks.metrics import outcomes
from caramel.evaluation.results.summary import aligned, subset_masks

SEPARABILITY_COLUMNS = ("benchmark", "subset", "metric", "n", "floor", "ceiling", "differ")


def count_separable(similarities: pd.DataFrame, benchmark: str, metrics: Sequence[str]) -> pd.DataFrame:
    """Return how many instances of each subset the runs of one benchmark tell apart: ``SEPARABILITY_COLUMNS``.

    ``n`` counts the instances that all runs scored; ``floor`` those that no run has right, ``ceiling`` those that all
    have right, ``differ`` the others. An outcome between 0 and 1 is in ``differ``.

    Args:
        similarities: table ``similarities``; every model in it is a run.
        benchmark: which of its benchmarks.
        metrics: names.
    """
    rows = similarities[similarities["benchmark"] == benchmark]
    runs = [run.reset_index(drop=True) for _, run in rows.groupby("model", sort=False)]
    if not runs:
        return pd.DataFrame(columns=list(SEPARABILITY_COLUMNS))
    hits = np.stack([outcomes(aligned(run, runs[0]), metrics).hits.to_numpy(float) for run in runs])
    scored = ~np.isnan(hits).any(axis=0)
    counts = {
        "n": scored,
        "floor": scored & (hits == 0).all(axis=0),
        "ceiling": scored & (hits == 1).all(axis=0),
    }
    found = [
        {
            "benchmark": benchmark,
            "subset": subset,
            "metric": metric,
            **{name: int(which[mask, column].sum()) for name, which in counts.items()},
        }
        for subset, mask in subset_masks(runs[0]).items()
        for column, metric in enumerate(metrics)
    ]
    table = pd.DataFrame(found).assign(differ=lambda t: t["n"] - t["floor"] - t["ceiling"])
    return table[list(SEPARABILITY_COLUMNS)]
