"""Find the instances that most models fail, by metric: figures 8 to 10 of SugarCrepe++ (Dumpala et al. 2024, H).

There, most models fail ITT and TOT (figure 8), TOT alone (figure 9) or ITT alone (figure 10).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.evaluation.results.run_hits import compute_run_hits

MOST = 0.5  # an instance is failed by most models if a larger share of those with a score fails it


def find_common_failures(similarities: pd.DataFrame, benchmark: str, metrics: Sequence[str]) -> pd.DataFrame:
    """Return the instances that most models fail in at least one metric, the most failed first.

    Columns: instance_id, image_id, subsets (joined by spaces), ``failed_by_most`` (the metrics, joined by spaces), and
    for each metric ``<metric>_failed`` and ``<metric>_models``: the models that fail it, and those with a score. A tie
    is a failure.

    Args:
        similarities: table ``similarities`` of several models.
        benchmark: name of the benchmark.
        metrics: names of metrics; those without any score are left out.

    Raises:
        DataError: fewer than two models have a score on the benchmark, or they did not score the same instances.
    """
    run_hits = compute_run_hits(similarities, benchmark, metrics)
    if len(run_hits.hits) < 2:
        raise DataError(
            f"{len(run_hits.hits)} models have scores on {benchmark!r}, but instances that most models fail need at least two. "
            f"Give the folders of more runs."
        )
    hits = np.stack(list(run_hits.hits.values()))  # (models, n, metrics)
    scored = ~np.isnan(hits)
    n_failed, n_models = (scored & (hits < 1)).sum(axis=0), scored.sum(axis=0)
    by_most = n_failed > MOST * n_models
    rows = run_hits.rows[["instance_id", "image_id"]].assign(
        subsets=[" ".join(names) for names in run_hits.rows["subsets"]],
        failed_by_most=[" ".join(np.array(metrics)[failed]) for failed in by_most],
    )
    for index, metric in enumerate(metrics):
        if n_models[:, index].any():
            rows[f"{metric}_failed"], rows[f"{metric}_models"] = n_failed[:, index], n_models[:, index]
    order = (
        rows.assign(total=-n_failed.sum(axis=1)).sort_values(["total", "instance_id"], kind="stable").index
    )
    failures: pd.DataFrame = rows.loc[order[by_most.any(axis=1)[order]]].reset_index(drop=True)
    return failures
