"""People as a row of the results table: metrics of a human baseline, from answers to retrieval queries.

An instance with two images and two captions gives four queries, as in BiVLC (3.1): which caption fits image I0 and
which fits I1, which image fits caption C0 and which fits C1. A metric is a hit if all of its queries are right. Answers
are not similarities: people may prefer C0 for I0 and yet I1 for C0. The row therefore has metrics and no scores.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from caramel.annotation.agreement.answers import check_answers, select_judged, split_questions
from caramel.annotation.content import hash_instances
from caramel.errors import DataError, format_items
from caramel.interfaces.benchmark import Benchmark
from caramel.io.validators import format_value
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame
from caramel.utils.arrays import Floats, Ints
from caramel.utils.stats import LEVEL, Z, wilson_interval

RIGHT = {"i0": "c0", "i1": "c1", "c0": "i0", "c1": "i1"}  # right answer to each query
QUERIES = {
    "accuracy": ("i0",),
    "i2t": ("i0", "i1"),
    "t2i": ("c0", "c1"),
    "group": ("i0", "i1", "c0", "c1"),
    "i_pos2t": ("i0",),
    "i_neg2t": ("i1",),
    "t_pos2i": ("c0",),
    "t_neg2i": ("c1",),
}
TASK, MACRO = "baseline", "macro"


def compute_baseline_metrics(
    answers: pd.DataFrame,
    instances: pd.DataFrame,
    images: pd.DataFrame,
    *,
    model: str,
    benchmark: Benchmark,
    where: str,
) -> pd.DataFrame:
    """Return table ``metrics`` of the people who answered, with subsets ``all``, types, subtypes, and ``macro``.

    ``macro`` is the mean over the subtypes, or types, that the benchmark selects for it, as for models and in the
    published tables. If it selects none, there is no such row.

    ``n`` counts answered instances, and an instance that several people answered once for each of them. The interval
    is ``compute_two_way_interval`` over annotators and images: it holds for other people and other instances of the
    same kind. Skipped instances are unscored. Items with known answers that test the annotators, and annotators who
    failed the qualification, are left out (``select_judged``).

    Args:
        answers: table ``annotations`` of task ``baseline``.
        instances: table ``instances``, with at least those that were answered.
        images: table ``images`` of the instances.
        model: name of the row.
        benchmark: the benchmark that the instances belong to.
        where: location of the answers, for messages.

    Raises:
        DataError: the answers cannot be pooled, are of another task, or are to instances that the table lacks or has
            with other captions or images.
    """
    task = check_answers(answers, where)
    if task != TASK:
        raise DataError(
            f"{where} holds answers of task {task!r}. A human baseline needs those of task {TASK!r}."
        )
    answers = select_judged(answers)
    if foreign := list_foreign_items(answers, instances, images):
        raise DataError(
            f"{len(foreign)} answered items of {where} are not among the {len(instances)} instances, or have other captions or "
            f"images there:\n"
            f"{format_items([format_value(name) for name in foreign])}\nGive the instances from which the items were made."
        )
    skipped = answers[answers["answer"].isna()].merge(
        instances, left_on="item_id", right_on="instance_id", validate="many_to_one"
    )
    rows = _score_queries(answers).merge(
        instances, left_on="item_id", right_on="instance_id", validate="many_to_one"
    )
    rows, skipped = (_add_macro_subset(part, benchmark.macro) for part in (rows, skipped))
    subsets = [("all", "", "")]
    for column in ("type", "subtype"):
        subsets += [(str(name), column, str(name)) for name in sorted(rows[column].unique())]
    records = []
    for subset, column, name in [*subsets, (MACRO, "", "")]:
        part, unanswered = (
            of[of[MACRO].notna()] if subset == MACRO else of[of[column] == name] if column else of
            for of in (rows, skipped)
        )
        if part.empty:  # the benchmark has no macro mean
            continue
        clusters = [pd.factorize(part[key])[0].astype(np.int64) for key in ("annotator", "image_id")]
        groups = pd.factorize(part[MACRO])[0].astype(np.int64) if subset == MACRO else None
        for metric, queries in QUERIES.items():
            hits = part[list(queries)].all(axis=1).to_numpy().astype(np.float64)
            value, low, high = compute_two_way_interval(hits, *clusters, groups=groups)
            records.append(
                {
                    "model": model,
                    "benchmark": benchmark.name,
                    "subset": subset,
                    "metric": metric,
                    "value": value,
                    "ci_low": low,
                    "ci_high": high,
                    "n": len(part),
                    "ties": 0,
                    "unscored": len(unanswered),
                }
            )
    return build_frame(METRICS, records)


def _add_macro_subset(rows: pd.DataFrame, macro: Callable[[str], bool]) -> pd.DataFrame:
    """Return instances with the subset of each that the macro mean counts in column ``macro``; missing if none."""
    subtypes, types = (
        rows[column].where(rows[column].map(macro).astype(bool)) for column in ("subtype", "type")
    )
    return rows.assign(**{MACRO: subtypes.fillna(types)})


def list_foreign_items(answers: pd.DataFrame, instances: pd.DataFrame, images: pd.DataFrame) -> list[str]:
    """Return the answered instances, sorted, that the table lacks or has with other captions or images.

    The answers are then of another benchmark. Arguments as in ``compute_baseline_metrics``.
    """
    rows, contents = select_judged(answers), hash_instances(instances, images)
    return sorted(set(rows.loc[rows["item_id"].map(contents) != rows["content"], "item_id"]))


def _score_queries(answers: pd.DataFrame) -> pd.DataFrame:
    """Return ``item_id`` and ``annotator`` of each answer, and for each query whether it is right."""
    questions = split_questions(answers, TASK)
    rows = questions["i0"][["item_id", "annotator"]]
    return rows.assign(**{name: questions[name]["answer"] == right for name, right in RIGHT.items()})


def compute_two_way_interval(
    values: Floats, first: Ints, second: Ints, *, groups: Ints | None = None
) -> tuple[float, float, float]:
    """Return (mean, low, high): a 95 % interval for a share in [0, 1] of rows that are clustered in two ways.

    The variance is that of Cameron, Gelbach & Miller (2011): clusters of the first kind, plus those of the second, minus
    those of both, and at least the larger of the first two. Each is corrected for its number of clusters. The ends are
    Wilson's at the effective number of rows that this variance means, with the t quantile of the smaller number of
    clusters − 1 degrees of freedom. If no value varies, each cluster counts as one row. With fewer than two clusters of
    either kind the spread is unknown: NaN.

    Args:
        values: (n,) in [0, 1].
        first, second: (n,) cluster of each row, in [0, k).
        groups: (n,) group of each row, in [0, g): the mean is that of the groups' means. None: over all rows.
    """
    from scipy.stats import t

    groups = np.zeros(len(values), np.int64) if groups is None else groups
    sizes = np.bincount(groups)
    means = np.bincount(groups, values) / sizes
    share = float(means.mean())
    # Each row weighs as much as its group leaves to it; with one group, every weight is one.
    residuals = (values - means[groups]) * (len(values) / (len(sizes) * sizes[groups]))
    fewest = min(int(first.max()), int(second.max())) + 1
    if fewest < 2:
        return share, np.nan, np.nan
    both = pd.factorize(first * (int(second.max()) + 1) + second)[0].astype(np.int64)
    of_first, of_second, of_both = (
        _compute_cluster_variance(residuals, clusters) for clusters in (first, second, both)
    )
    variance = max(of_first + of_second - of_both, of_first, of_second)
    rows, quantile = float(fewest), Z
    if variance > 1e-12:
        rows, quantile = share * (1 - share) / variance, float(t.ppf((1 + LEVEL) / 2, fewest - 1))
    low, high = (float(end) for end in wilson_interval(share, rows, quantile))
    return share, min(share, low), max(share, high)


def _compute_cluster_variance(residuals: Floats, clusters: Ints) -> float:
    """Return the variance of the mean by linearisation over whole clusters (Kish 1965, 6.5)."""
    k = int(clusters.max()) + 1
    sums = np.bincount(clusters, residuals)
    return k / (k - 1) * float((sums**2).sum()) / len(residuals) ** 2
