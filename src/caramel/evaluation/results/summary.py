"""Compute metrics by subset from similarities, and summarise them over training seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.benchmarks.metrics import Outcomes, compute_outcomes
from caramel.errors import DataError, format_items
from caramel.evaluation.results.content_match import check_contents
from caramel.interfaces.benchmark import Benchmark
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame
from caramel.utils.arrays import Floats
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import (
    ClusterTotals,
    bootstrap_cluster_means,
    compute_cluster_totals,
    compute_means,
    fraction_intervals,
    summarise_seeds,
)

BASE = "base"  # name of the model from which the variants are fine-tuned
MACRO = "macro"
_MOST_CELLS = 2**22  # values by subset in memory at a time: 32 MB
VARIANT_COLUMNS = ("variant", "subset", "metric", "mean", "sd", "ci_low", "ci_high", "seeds")


def summarise_similarities(
    similarities: pd.DataFrame, benchmarks: Mapping[str, Benchmark], *, bootstrap: Bootstrap
) -> pd.DataFrame:
    """Return table ``metrics`` for every model and benchmark in ``similarities``.

    The subsets are ``all`` (micro: over all instances), ``macro`` if the benchmark has it (mean over its macro
    subsets that have scored instances), and each subset that occurs.

    Args:
        similarities: table ``similarities``.
        benchmarks: name -> benchmark, which gives the metrics and the macro subsets.
        bootstrap: settings of the intervals.
    """
    parts = [
        compute_metrics(
            rows,
            compute_outcomes(rows, benchmarks[str(name)].metrics),
            benchmarks[str(name)].macro,
            bootstrap,
            mean_members=benchmarks[str(name)].means,
        ).assign(model=str(model), benchmark=str(name))
        for (model, name), rows in similarities.groupby(["model", "benchmark"], sort=False)
    ]
    if not parts:
        return build_frame(METRICS, [])
    return build_frame(METRICS, pd.concat(parts, ignore_index=True))


def compute_metrics(
    rows: pd.DataFrame,
    instance_outcomes: Outcomes,
    macro: Callable[[str], bool],
    bootstrap: Bootstrap,
    *,
    mean_members: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return the metrics of one model on one benchmark, one row per subset and metric.

    Args:
        rows: ``image_id`` (the cluster) and ``subsets`` of each instance.
        instance_outcomes: outcomes of the same rows.
        macro: returns whether a subset is in the macro mean.
        bootstrap: settings of the intervals.
        mean_members: members of further means, see ``Benchmark.means``.
    """
    parts, metrics = build_subset_masks(rows), list(instance_outcomes.hits.columns)
    value, totals = _compute_subset_totals(
        instance_outcomes.hits.to_numpy(float), parts, assign_clusters(rows)
    )
    samples = bootstrap_cluster_means(totals, resamples=bootstrap.n_bootstrap, seed=bootstrap.seed)
    layout = ColumnLayout(tuple(parts), tuple(metrics), macro, mean_members)
    values = layout.append_means(value[None], value)[0]
    low, high = fraction_intervals(
        values, layout.append_means(samples, value), layout.append_minima(totals.count_clusters())
    )
    n, tied = totals.sizes.sum(axis=0).astype(int), instance_outcomes.ties.to_numpy(bool)
    ties = np.concatenate([tied[mask].sum(axis=0) for mask in parts.values()])
    sizes = np.repeat([int(mask.sum()) for mask in parts.values()], len(metrics))
    return pd.DataFrame(
        {
            **layout.build_labels(),
            "value": values,
            "ci_low": low,
            "ci_high": high,
            "n": layout.append_sums(n),
            "ties": layout.append_sums(ties),
            "unscored": layout.append_sums(sizes - n),
        }
    )


def select_overall_metrics(metrics: pd.DataFrame) -> dict[str, float]:
    """Return one model's metrics over all instances, rounded to six decimals, without unscored metrics."""
    rows = metrics[metrics["subset"] == "all"]
    values = zip(rows["metric"], rows["value"], strict=True)
    return {str(name): round(float(value), 6) for name, value in values if not math.isnan(value)}


def nest_overall_metrics(metrics: pd.DataFrame) -> dict[str, dict[str, dict[str, float]]]:
    """Return ``select_overall_metrics`` by benchmark and model, in the order of the rows."""
    return {
        str(benchmark): {
            str(model): select_overall_metrics(of_model)
            for model, of_model in rows.groupby("model", sort=False)
        }
        for benchmark, rows in metrics.groupby("benchmark", sort=False)
    }


def parse_variant(model: str) -> str:
    """Return the variant of a model named ``<variant>-<seed>``; any other name is returned unchanged."""
    variant, dash, seed = model.rpartition("-")
    return variant if dash and seed.isdigit() else model


def summarise_variants(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return mean, sd and 95 % t interval over the seeds of each variant, from table ``metrics``.

    The columns are ``VARIANT_COLUMNS``. A model without a seed in its name, such as the base, counts as one seed.
    """
    keyed = metrics.assign(variant=metrics["model"].map(parse_variant))
    rows = []
    for (variant, subset, metric), group in keyed.groupby(["variant", "subset", "metric"], sort=False):
        mean, sd, low, high, n = summarise_seeds(group["value"].dropna().to_numpy(float))
        rows.append((variant, subset, metric, mean, sd, low, high, n))
    return pd.DataFrame(rows, columns=list(VARIANT_COLUMNS))


def align_runs(runs: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the rows of each run in the order of the first run's instances.

    Raises:
        DataError: two runs hold different instances, or instances with different texts, images or subsets.
    """
    aligned = [_align_rows(run, runs[0]) for run in runs]
    check_contents(aligned)  # of all runs together: the first may not know its contents
    return aligned


def _align_rows(rows: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    ours, theirs = set(rows["instance_id"]), set(others["instance_id"])
    if ours != theirs:
        odd = sorted(ours ^ theirs)
        raise DataError(
            f"Instances that only one of the models scored: {len(odd)}\n{format_items([repr(i) for i in odd])}\n"
            f"Score both models on the same data, with the same --limit."
        )
    reordered = rows.set_index("instance_id", drop=False).loc[others["instance_id"]].reset_index(drop=True)
    pairs = zip(_describe_instances(reordered), _describe_instances(others), strict=True)
    differ = [f"{one[0]!r}: {one[1:]} and {other[1:]}" for one, other in pairs if one != other]
    if differ:
        raise DataError(
            f"Instances with the same id but different images or subsets: {len(differ)}\n{format_items(differ)}\n"
            f"They are of different releases. Score both models on the same release."
        )
    return reordered


def _describe_instances(rows: pd.DataFrame) -> list[tuple[str, str, list[str]]]:
    """Return id, image and sorted subsets of each instance."""
    subsets = (sorted(names) for names in rows["subsets"])
    return list(zip(rows["instance_id"], rows["image_id"], subsets, strict=True))


def assign_clusters(rows: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return the number of each instance's positive image, in [0, images).

    Images are numbered by name, so that the order of the rows does not change the draws of the bootstrap.
    """
    return pd.factorize(rows["image_id"], sort=True)[0].astype(np.int64)


def build_subset_masks(rows: pd.DataFrame) -> Mapping[str, npt.NDArray[np.bool_]]:
    """Return the mask of instances of each subset, (n,); ``all`` first, then in order of first appearance.

    Raises:
        DataError: a subset has the name of a mean.
    """
    masks = {"all": np.ones(len(rows), bool)}
    lists = rows["subsets"].reset_index(drop=True).explode().dropna()
    if taken := sorted({*lists} & {"all", MACRO}):
        raise DataError(
            f"A subset in column 'subsets' is called {taken[0]!r}, which is the name of a mean. Rename the subset."
        )
    for name, row_index in lists.groupby(lists, sort=False).groups.items():
        masks[str(name)] = np.zeros(len(rows), bool)
        masks[str(name)][row_index.to_numpy()] = True
    return masks


def expand_by_subset(values: Floats, subsets: Mapping[str, npt.NDArray[np.bool_]]) -> Floats:
    """Return a copy of the values per subset with NaN outside the subset: (n, m) -> (n, subsets * m)."""
    return np.concatenate([np.where(mask[:, None], values, np.nan) for mask in subsets.values()], axis=1)


def _compute_subset_totals(
    values: Floats, subsets: Mapping[str, npt.NDArray[np.bool_]], clusters: npt.NDArray[np.int64]
) -> tuple[Floats, ClusterTotals]:
    """Return means and totals of the columns of ``expand_by_subset``, (subsets * m,) and (k, subsets * m).

    At most about ``_MOST_CELLS`` cells of the columns are in memory at a time.
    """
    count = min(len(subsets), -(-values.size * len(subsets) // _MOST_CELLS))
    means, totals = [], []
    for names in np.array_split(list(subsets), max(1, count)):
        columns = expand_by_subset(values, {name: subsets[name] for name in names.tolist()})
        means.append(compute_means(columns))
        totals.append(compute_cluster_totals(columns, clusters))
    sums, sizes = (np.concatenate(parts, axis=1) for parts in zip(*totals, strict=True))
    return np.concatenate(means), ClusterTotals(sums, sizes)


@dataclass(frozen=True)
class ColumnLayout:
    """A flattened (subsets, metrics) layout of columns, followed by the macro mean and the further means."""

    subsets: tuple[str, ...]
    metrics: tuple[str, ...]
    macro: Callable[[str], bool]
    means: Mapping[str, Sequence[str]] = field(default_factory=dict)  # see ``Benchmark.means``

    @property
    def _means(self) -> dict[str, list[int]]:
        """Name of each mean that has a member -> positions of its members among the subsets and earlier means."""
        positions = {name: position for position, name in enumerate(self.subsets)}
        macro = [name for name in self.subsets if name != "all" and self.macro(name)]
        member_positions = {}
        for name, members in {MACRO: macro, **self.means}.items():
            if scored_members := [positions[member] for member in members if member in positions]:
                member_positions[name], positions[name] = scored_members, len(positions)
        return member_positions

    def append_means(self, rows: Floats, point: Floats) -> Floats:
        """Return rows (r, subsets * m) with the m values of each mean appended.

        A mean is over those members that have a value in ``point``. It is NaN in a bootstrap sample in which one of
        them has no value.
        """
        m, both = len(self.metrics), np.concatenate([point[None], rows])
        for members in self._means.values():
            values = both.reshape(len(both), -1, m)[:, members]
            known = ~np.isnan(values[0])
            count = known.sum(axis=0)
            total = np.where(known, values, 0.0).sum(axis=1)
            mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
            both = np.concatenate([both, mean], axis=1)
        extended: Floats = both[1:]
        return extended

    def append_sums(self, counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return counts (subsets * m,) with the counts of the means appended: the sums over their members."""
        for members in self._means.values():
            member_counts = counts.reshape(-1, len(self.metrics))[members]
            counts = np.concatenate([counts, member_counts.sum(axis=0)])
        return counts

    def append_minima(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return counts (subsets * m,) with those of the means appended: the smallest positive count of a member."""
        most = counts.max(initial=0)
        for members in self._means.values():
            member_counts = counts.reshape(-1, len(self.metrics))[members]
            counts = np.concatenate([counts, np.where(member_counts > 0, member_counts, most).min(axis=0)])
        return counts

    def build_labels(self) -> dict[str, list[str]]:
        """Return the columns ``subset`` and ``metric``."""
        names = [*self.subsets, *self._means]
        return {"subset": [n for n in names for _ in self.metrics], "metric": [*self.metrics] * len(names)}
