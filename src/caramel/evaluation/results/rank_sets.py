"""Compute confidence sets of the ranks of models on one benchmark, paired from per-instance hits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pandas as pd

from caramel.evaluation.results.paired_tests import compute_contributions
from caramel.evaluation.results.summary import (
    ColumnLayout,
    assign_clusters,
    build_subset_masks,
    expand_by_subset,
)
from caramel.utils.arrays import Bools, Floats, Ints
from caramel.utils.rank_sets import compute_rank_bounds, find_paired_order, group_ties
from caramel.utils.stats import compute_means

RANK_COLUMNS = ("model", "subset", "metric", "value", "rank_best", "rank_worst", "ties", "models")


def compute_rank_sets(
    hits: Mapping[str, Floats],
    rows: pd.DataFrame,
    metrics: Sequence[str],
    macro: Callable[[str], bool],
    seed: int,
    mean_members: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return the rank set of each model by subset and metric: ``RANK_COLUMNS``.

    ``rank_best`` and ``rank_worst`` are the ends of the set; 1 is the best rank. In each column of a table, a
    (subset, metric), all models' sets hold their true ranks at once with a probability of at least 95 %. ``ties``
    has letters: two models share one exactly if their order is not shown. A model without a
    score in a column has no line there; ``models`` counts those that were ranked. A column is left out if no instance
    has a score of all of them.

    Args:
        hits: by model, (n, metrics) in [0, 1]. An instance that any model of a column has no score for
            counts for none. Hits averaged over training seeds give the ranks of these trained models, not of their recipes.
        rows: ``image_id`` and ``subsets`` of each instance.
        metrics: names of the columns of the hits.
        macro: returns whether a subset is in the macro mean.
        seed: seed of the draws.
        mean_members: members of further means, see ``Benchmark.means``.
    """
    subsets, clusters = build_subset_masks(rows), assign_clusters(rows)
    layout = ColumnLayout(tuple(subsets), tuple(metrics), macro, mean_members)
    names, stacked = list(hits), np.stack(list(hits.values()))
    scored = ~np.isnan([_compute_columns(of_model, subsets, clusters, layout)[0] for of_model in stacked])
    common: dict[tuple[int, ...], list[tuple[Floats, Floats]]] = {}
    labels, lines = layout.build_labels(), []
    for column, label in enumerate(zip(labels["subset"], labels["metric"], strict=True)):
        ranked = tuple(np.flatnonzero(scored[:, column]).tolist())
        if not ranked:
            continue
        if ranked not in common:
            chosen = stacked[list(ranked)]
            chosen[:, np.isnan(chosen).any(axis=0)] = np.nan
            common[ranked] = [_compute_columns(of_model, subsets, clusters, layout) for of_model in chosen]
        scores = np.array([values[column] for values, _ in common[ranked]])
        if np.isnan(scores).any():
            continue
        better = find_paired_order(np.stack([of[:, column] for _, of in common[ranked]], axis=1), seed)
        best, worst = compute_rank_bounds(better)
        ties = group_ties(better, np.argsort(-scores, kind="stable").tolist())
        for index, model in enumerate(ranked):
            ranks = int(best[index]), int(worst[index]), ties[index]
            lines.append((names[model], *label, scores[index], *ranks, len(ranked)))
    return pd.DataFrame(lines, columns=list(RANK_COLUMNS))


def _compute_columns(
    hits: Floats, subsets: Mapping[str, Bools], clusters: Ints, layout: ColumnLayout
) -> tuple[Floats, Floats]:
    """Return a model's value in each column, (columns,), and each cluster's part of it, (clusters, columns)."""
    columns = expand_by_subset(hits, subsets)
    point = compute_means(columns)
    return (
        layout.append_means(point[None], point)[0],
        layout.append_means(compute_contributions(columns, clusters), point),
    )
