"""Compute chance and ceilings of recall@k: the most that any model of a class reaches on candidates that it must rank.

A model of a class gives candidates with equal views equal similarities (``model_classes``). So it orders groups of
candidates, and within a group the order is random. Of a group of n candidates with g true ones that stands first, a
true candidate is among the first k with the probability::

    P(n, g, k) = 1 − C(n − g, k) / C(n, k)

Chance is P(N, g, k) of all N candidates. The best order of one query has the group with the greatest P first: a group
without a true candidate before it can only take its ranks. Chance and ceilings are means of these probabilities over the
queries. The measured recall is stricter, because there a tie is a miss (``benchmarks.metrics``).

Queries with the same view share one order: all images for a model without images, captions with the same words for a bag
of words. Over queries with the same candidates, the expected number of true candidates among the first k is at most the
sum of the k greatest mean numbers of true candidates per rank that the groups have. That gives an upper bound. The ceiling
is exact if a score function, built greedily, reaches the bound; its recall is computed with all ties broken at random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from math import comb
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.benchmarks.ceilings.ceilings import CEILING_COLUMNS, build_weights
from caramel.benchmarks.ceilings.model_classes import MODEL_CLASSES, ModelClass
from caramel.benchmarks.metrics import RECALLS
from caramel.interfaces.benchmark import Rankings
from caramel.utils.arrays import Bools, Floats

CHANCE_COLUMNS = ("subset", "metric", "chance")
_TOLERANCE = 1e-9  # of a recall


def compute_recall_chance(
    task: Rankings, metrics: Sequence[str], subsets: Mapping[str, Bools], means: Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    """Return the recall of a random order, a share in [0, 1]: ``CHANCE_COLUMNS``; arguments as in ``compute_recall_ceilings``."""
    columns = zip(task.rows["pool"].tolist(), task.rows["true"].tolist(), strict=True)
    sizes = [(len(task.pools[pool]), len(set(true))) for pool, true in columns]
    lines = []
    for metric in metrics:
        chance = np.array([_compute_recall(n, g, RECALLS[metric].ks) for n, g in sizes])
        for subset, weights in build_weights(subsets, means, np.ones(len(sizes), bool)).items():
            lines.append((subset, metric, float(weights @ chance)))
    return pd.DataFrame(lines, columns=list(CHANCE_COLUMNS))


def compute_recall_ceilings(
    task: Rankings,
    metrics: Sequence[str],
    subsets: Mapping[str, Bools],
    means: Mapping[str, Sequence[str]],
    classes: Mapping[str, ModelClass] = MODEL_CLASSES,
) -> pd.DataFrame:
    """Return the ceiling of each class, subset and metric: ``ceilings.CEILING_COLUMNS``.

    ``ceiling`` is an expected share in [0, 1], an upper bound of it if ``exact`` is false. ``impossible`` is 0: a random order
    may be right.

    Args:
        task: queries and candidates.
        metrics: names in ``metrics.RECALLS``.
        subsets: mask of the queries of each subset.
        means: members of each mean, subsets and earlier means.
        classes: the classes of models.
    """
    weights = build_weights(subsets, means, np.ones(len(task.rows), bool))
    lines = []
    for name, model_class in classes.items():
        queries = _build_queries(task, model_class)
        for metric in metrics:
            for subset, of_subset in weights.items():
                value, exact = _compute_ceiling(queries, of_subset, RECALLS[metric].ks)
                lines.append((name, subset, metric, value, exact, int((of_subset > 0).sum()), 0))
    return pd.DataFrame(lines, columns=list(CEILING_COLUMNS))


@cache
def _compute_recall(n: int, g: int, ks: tuple[int, ...]) -> float:
    """Return the mean over ``ks`` of P(n, g, k); for k > n it is P(n, g, n)."""
    return sum(1 - comb(n - g, min(k, n)) / comb(n, min(k, n)) for k in ks) / len(ks)


class _Query(NamedTuple):
    """A query as a model of a class sees it.

    Attributes:
        source: direction, and number of the view of the query.
        pool: number of the pool in ``_Queries.pools``.
        n_candidates: number of candidates.
        true: group -> number of true candidates.
    """

    source: tuple[str, int]
    pool: int
    n_candidates: int
    true: Mapping[int, int]


class _Queries(NamedTuple):
    """All queries; by pool, group of equal candidates -> its size."""

    queries: Sequence[_Query]
    pools: Sequence[Mapping[int, int]]


def _build_queries(task: Rankings, model_class: ModelClass) -> _Queries:
    """Return the queries as a model of the class sees them; a view is known by its number."""
    numbers: dict[Hashable, int] = {}
    texts = np.array(
        [
            numbers.setdefault(tuple(model_class.view_text(part) for part in text), len(numbers))
            for text in task.texts
        ],
        np.int64,
    )
    images = np.arange(len(task.images)) * int(model_class.sees_images)
    codes, pools = {"i2t": (images, texts), "t2i": (texts, images)}, dict[tuple[str, int], int]()
    queries, sizes = [], list[Mapping[int, int]]()
    columns = (task.rows[name] for name in ("direction", "query", "pool", "true"))
    for direction, query, pool, true in zip(*columns, strict=True):
        of_query, of_candidates = codes[direction]
        if (direction, pool) not in pools:
            pools[direction, pool] = len(sizes)
            sizes.append(Counter(of_candidates[task.pools[pool]].tolist()))
        counts = Counter(of_candidates[sorted(set(true))].tolist())
        queries.append(
            _Query((direction, int(of_query[query])), pools[direction, pool], len(task.pools[pool]), counts)
        )
    return _Queries(queries, sizes)


def _compute_ceiling(queries: _Queries, weights: Floats, ks: tuple[int, ...]) -> tuple[float, bool]:
    """Return an upper bound of the expected recall, and whether some score function reaches it."""
    blocks: dict[tuple[tuple[str, int], int], list[int]] = {}
    for i in np.flatnonzero(weights > 0).tolist():
        blocks.setdefault((queries.queries[i].source, queries.queries[i].pool), []).append(i)
    bound, scores = 0.0, dict[tuple[str, int], dict[int, float]]()
    for (source, pool), members in blocks.items():
        of_block, order = _compute_block_bound(queries, members, pool, weights, ks)
        bound += of_block
        _add_scores(scores, source, order, max(ks))
    reached = 0.0
    for (source, pool), members in blocks.items():
        of_source, ranked = scores.get(source, {}), Counter[float]()
        for group, score in of_source.items():
            ranked[score] += queries.pools[pool].get(group, 0)
        reached += sum(
            weights[i] * _compute_expected(queries.queries[i], of_source, ranked, ks) for i in members
        )
    return min(1.0, bound), bool(bound - reached <= _TOLERANCE)


def _compute_block_bound(
    queries: _Queries, members: Sequence[int], pool: int, weights: Floats, ks: tuple[int, ...]
) -> tuple[float, list[list[int]]]:
    """Return an upper bound of the summed recall of queries with one view and one pool, and groups to put first.

    Groups in one inner list get the same score.
    """
    sizes = queries.pools[pool]
    alone, tops = 0.0, list[list[int]]()
    gains: dict[int, float] = {}
    for i in members:
        true = queries.queries[i].true
        values = {group: _compute_recall(sizes[group], count, ks) for group, count in true.items()}
        top = max(values, key=lambda group: values[group])
        alone += weights[i] * values[top]
        best = [
            group for group, count in true.items() if count == sizes[group]
        ]  # nothing but true candidates
        tops.append(best or [top])
        for group, count in true.items():
            gains[group] = gains.get(group, 0.0) + weights[i] * count / sizes[group]
    if len(members) == 1:
        return alone, tops
    ranks = np.sort(np.repeat([*gains.values()], [min(sizes[group], max(ks)) for group in gains]))[::-1]
    shared = float(np.mean([ranks[:k].sum() for k in ks]))
    return min(alone, shared), _select_covering_groups(queries, members, sizes, weights, max(ks))


def _select_covering_groups(
    queries: _Queries, members: Sequence[int], sizes: Mapping[int, int], weights: Floats, most: int
) -> list[list[int]]:
    """Return groups, each the one that adds the most true candidates per rank of queries that have none yet."""
    by_group: dict[int, list[int]] = {}
    for i in members:
        for group in queries.queries[i].true:
            by_group.setdefault(group, []).append(i)
    open_queries, order, filled = set(members), list[list[int]](), 0
    while filled < most and open_queries:
        gains = {
            group: sum(weights[i] * queries.queries[i].true[group] for i in of_group if i in open_queries)
            / sizes[group]
            for group, of_group in by_group.items()
        }
        best = max(gains, key=lambda group: gains[group])
        order.append([best])
        filled += sizes[best]
        open_queries -= set(by_group.pop(best))
    return order


def _add_scores(
    scores: dict[tuple[str, int], dict[int, float]],
    source: tuple[str, int],
    order: Sequence[Sequence[int]],
    most: int,
) -> None:
    """Add the scores of a block's first groups, to the cells as both directions see them.

    An image's order of the texts goes before a text's order of the images.
    """
    direction, view = source
    other = "t2i" if direction == "i2t" else "i2t"
    scale = 2.0 * (most + 1) if direction == "i2t" else 1.0
    for position, tied in enumerate(order):
        for group in tied:
            score = scale * (1 - position / (most + 1))
            for key, cell in ((source, group), ((other, group), view)):
                of_key = scores.setdefault(key, {})
                of_key[cell] = of_key.get(cell, 0.0) + score


def _compute_expected(
    query: _Query, scores: Mapping[int, float], ranked: Mapping[float, int], ks: tuple[int, ...]
) -> float:
    """Return the expected recall of a query if ties are broken at random.

    Args:
        query: the query.
        scores: group -> score; groups without one have 0.
        ranked: score -> number of candidates that have it, without those of groups without a score.
        ks: of the metric.
    """
    first = max(scores.get(group, 0.0) for group in query.true)
    above = sum(count for score, count in ranked.items() if score > first)
    tied = ranked[first] if first else query.n_candidates - above
    true = sum(count for group, count in query.true.items() if scores.get(group, 0.0) == first)
    left = tuple(k - above for k in ks if k > above)
    return _compute_recall(tied, true, left) * len(left) / len(ks) if left else 0.0
