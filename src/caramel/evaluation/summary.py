"""Similarities -> metrics by subset, over seeds, and between variants."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel import tables
from caramel.errors import DataError, shown
from caramel.evaluation.metrics import METRICS, Outcomes, outcomes
from caramel.evaluation.statistics import (
    Floats,
    means,
    over_seeds,
    paired_difference,
    percentiles,
    resampled_means,
)

BASE = "base"  # name of the model that the variants start from
MACRO = "macro"
VARIANT_COLUMNS = ("variant", "subset", "metric", "mean", "sd", "ci_low", "ci_high", "seeds")
DIFFERENCE_COLUMNS = ("a", "b", "subset", "metric", "difference", "ci_low", "ci_high")


def summarise(
    similarities: pd.DataFrame, instances: pd.DataFrame, *, bootstrap: int, seed: int, benchmark: str
) -> pd.DataFrame:
    """Return table ``metrics`` for every model in ``similarities``.

    Subsets are ``all`` (micro: over all instances), ``macro`` (mean over the subtypes that have
    scored instances), ``without_add`` (the positive caption of an *add* negative stays true of the
    negative image, so those cannot be separated), and each type and subtype that occurs.

    Args:
        similarities: table ``similarities``.
        instances: table ``instances``; its image is the bootstrap's cluster.
        bootstrap: number of resamples.
        seed: of the bootstrap.
        benchmark: name for the column of that name.

    Raises:
        DataError: an instance of the similarities is unknown.
    """
    instances = _in_order(instances, similarities["instance_id"])
    parts = [
        _summarise_model(_aligned(rows, instances), instances, bootstrap, seed).assign(
            model=model, benchmark=benchmark
        )
        for model, rows in similarities.groupby("model", sort=False)
    ]
    if not parts:
        return tables.frame(tables.METRICS, [])
    return tables.frame(tables.METRICS, pd.concat(parts, ignore_index=True))


def _summarise_model(found: Outcomes, instances: pd.DataFrame, bootstrap: int, seed: int) -> pd.DataFrame:
    """Return the metrics of one model whose outcomes stand in the instances' order."""
    subsets = _subsets(instances)
    columns = _by_subset(_numbers(found.hits), subsets)
    tied = _by_subset(found.ties.to_numpy(float), subsets)
    value = means(columns)
    samples = resampled_means(columns, _clusters(instances), resamples=bootstrap, seed=seed)
    low, high = percentiles(_with_macro(samples, value, subsets))
    n, ties = (~np.isnan(columns)).sum(axis=0), np.nansum(tied, axis=0).astype(int)
    everything = slice(0, len(METRICS))  # the macro mean rests on all instances
    return pd.DataFrame(
        {
            **_labels(subsets),
            "value": _with_macro(value[None], value, subsets)[0],
            "ci_low": low,
            "ci_high": high,
            "n": np.concatenate([n, n[everything]]),
            "ties": np.concatenate([ties, ties[everything]]),
        }
    )


def variant_of(model: str) -> str:
    """Return the variant of a model named ``<variant>-<seed>``; any other name is its own."""
    variant, dash, seed = model.rpartition("-")
    return variant if dash and seed.isdigit() else model


def summarise_variants(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return mean, sd and 95 % t interval over the seeds of each variant, from table ``metrics``.

    The columns are ``VARIANT_COLUMNS``. A model without seeds, such as the base, is one seed.
    """
    keyed = metrics.assign(variant=metrics["model"].map(variant_of))
    rows = []
    for (variant, subset, metric), group in keyed.groupby(["variant", "subset", "metric"], sort=False):
        mean, sd, low, high, n = over_seeds(group["value"].dropna().to_numpy(float))
        rows.append((variant, subset, metric, mean, sd, low, high, n))
    return pd.DataFrame(rows, columns=list(VARIANT_COLUMNS))


def compare_variants(
    similarities: pd.DataFrame, instances: pd.DataFrame, *, bootstrap: int, seed: int
) -> pd.DataFrame:
    """Return paired differences a - b of all variants and the base, with 95 % intervals.

    The columns are ``DIFFERENCE_COLUMNS``; see ``statistics.paired_difference`` for what the
    interval covers. ``a`` is the model that comes later in ``similarities``.

    Raises:
        DataError: an instance of the similarities is unknown.
    """
    instances = _in_order(instances, similarities["instance_id"])
    subsets, clusters = _subsets(instances), _clusters(instances)
    runs: dict[str, list[Floats]] = {}
    for model, rows in similarities.groupby("model", sort=False):
        runs.setdefault(variant_of(str(model)), []).append(_numbers(_aligned(rows, instances).hits))
    parts = []
    for b, a in combinations(runs, 2):
        left, right = (np.stack([_by_subset(hits, subsets) for hits in runs[name]]) for name in (a, b))
        point, samples = paired_difference(left, right, clusters, resamples=bootstrap, seed=seed)
        low, high = percentiles(_with_macro(samples, point, subsets))
        difference = _with_macro(point[None], point, subsets)[0]
        values = {"difference": difference, "ci_low": low, "ci_high": high}
        parts.append(pd.DataFrame({"a": a, "b": b, **_labels(subsets), **values}))
    if not parts:
        return pd.DataFrame(columns=list(DIFFERENCE_COLUMNS))
    return pd.concat(parts, ignore_index=True)


def _in_order(instances: pd.DataFrame, ids: pd.Series) -> pd.DataFrame:
    """Return the instances of these ids, in the order of their first appearance."""
    ids = ids.drop_duplicates()
    known = instances.set_index("instance_id", drop=False)
    unknown = [repr(i) for i in ids if i not in known.index]
    if unknown:
        raise DataError(
            f"{len(unknown)} instances of the similarities are not in the instances table:\n"
            f"{shown(unknown)}\nThe two come from different versions; run `dvc repro evaluate`."
        )
    return known.loc[ids].reset_index(drop=True)


def _aligned(rows: pd.DataFrame, instances: pd.DataFrame) -> Outcomes:
    """Return one model's outcomes in the instances' order; unscored where it has no row."""
    return outcomes(rows.set_index("instance_id").reindex(instances["instance_id"]))


def _numbers(hits: pd.DataFrame) -> Floats:
    """Return hits as 1, 0 or NaN, (n, metrics)."""
    return hits.to_numpy(dtype=float, na_value=np.nan)


def _clusters(instances: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return the number of each instance's positive image, in [0, images)."""
    return pd.factorize(instances["image_id"])[0].astype(np.int64)


def _subsets(instances: pd.DataFrame) -> Mapping[str, npt.NDArray[np.bool_]]:
    """Return which instances each subset holds, (n,) each; ``all`` first, subtypes last."""
    kind, subtype = instances["type"].to_numpy(), instances["subtype"].to_numpy()
    subsets = {"all": np.ones(len(instances), bool), "without_add": kind != "add"}
    subsets |= {name: kind == name for name in tables.TYPES if (kind == name).any()}
    subsets |= {name: subtype == name for name in tables.SUBTYPES if (subtype == name).any()}
    return subsets


def _by_subset(values: Floats, subsets: Mapping[str, npt.NDArray[np.bool_]]) -> Floats:
    """Return the values once per subset, NaN outside it: (n, m) -> (n, subsets * m)."""
    return np.concatenate([np.where(mask[:, None], values, np.nan) for mask in subsets.values()], axis=1)


def _with_macro(rows: Floats, point: Floats, subsets: Mapping[str, npt.NDArray[np.bool_]]) -> Floats:
    """Return rows (r, subsets * m) with the m macro means at the end.

    The mean is over the subtypes that have a value in ``point``; a bootstrap sample that lacks
    one of them has no macro mean.
    """
    places = [i for i, name in enumerate(subsets) if name in tables.SUBTYPES]
    by_subset = rows.reshape(len(rows), len(subsets), len(METRICS))[:, places]
    known = ~np.isnan(point.reshape(len(subsets), len(METRICS))[places])
    total = np.where(known, by_subset, 0.0).sum(axis=1)
    count = known.sum(axis=0)
    macro = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return np.concatenate([rows, macro], axis=1)


def _labels(subsets: Mapping[str, npt.NDArray[np.bool_]]) -> dict[str, list[str]]:
    """Return columns ``subset`` and ``metric`` of the flattened (subsets + macro, metrics) layout."""
    names = [*subsets, MACRO]
    return {"subset": [n for n in names for _ in METRICS], "metric": [*METRICS] * len(names)}
