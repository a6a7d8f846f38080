"""Count the instances that separate models: an instance that all runs or no run has right separates none."""

from __future__ import annotations

import numpy as np
import pandas as pd

from caramel.evaluation.results.run_hits import RunHits
from caramel.evaluation.results.summary import build_subset_masks

SEPARABILITY_COLUMNS = ("benchmark", "subset", "metric", "n", "floor", "ceiling", "differ")


def count_separable(runs: RunHits) -> pd.DataFrame:
    """Count the instances of each subset on which the runs of one benchmark differ: ``SEPARABILITY_COLUMNS``.

    - ``n``: instances that all runs scored
    - ``floor``: instances that no run has right
    - ``ceiling``: instances that all runs have right
    - ``differ``: all others, including those with an outcome between 0 and 1
    """
    if not runs.hits:
        return pd.DataFrame(columns=list(SEPARABILITY_COLUMNS))
    hits = np.stack(list(runs.hits.values()))
    scored = ~np.isnan(hits).any(axis=0)
    counts = {
        "n": scored,
        "floor": scored & (hits == 0).all(axis=0),
        "ceiling": scored & (hits == 1).all(axis=0),
    }
    rows = [
        {
            "benchmark": runs.benchmark,
            "subset": subset,
            "metric": metric,
            **{name: int(which[mask, column].sum()) for name, which in counts.items()},
        }
        for subset, mask in build_subset_masks(runs.rows).items()
        for column, metric in enumerate(runs.metrics)
    ]
    table = pd.DataFrame(rows).assign(differ=lambda t: t["n"] - t["floor"] - t["ceiling"])
    return table[list(SEPARABILITY_COLUMNS)]
