"""Test paired hits of two models: difference, interval, p-value, effect size and detectable difference.

The difference of two models is the mean over instances of a's hit - b's hit. Its variance has two parts:

- Images: another sample of images would give another difference. This part comes from the bootstrap over images.
- Training: another training of the same recipe would give another difference. If a model has several training
  seeds, this part is the variance of the seeds' values divided by the number of seeds.

The parts are added. The degrees of freedom of the sum follow Satterthwaite (1946). A seed's hits vary with the
images as well, so some of the first part is counted twice and the interval is slightly too long. For a model
with one seed, the result holds for that training only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.evaluation.results.summary import (
    ColumnLayout,
    assign_clusters,
    build_subset_masks,
    expand_by_subset,
)
from caramel.utils.arrays import Floats
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import (
    FLIPS,
    LEVEL,
    bootstrap_means,
    compute_cluster_totals,
    compute_means,
    count_clusters,
    sign_flip_p_value,
    standard_errors,
)

ALPHA = 1 - LEVEL
POWER = 0.84  # normal quantile of 80 %


def compare_hits(
    a: Floats,
    b: Floats,
    rows: pd.DataFrame,
    metrics: Sequence[str],
    macro: Callable[[str], bool],
    *,
    bootstrap: Bootstrap,
    flips: int = FLIPS,
) -> pd.DataFrame:
    """Compare a with b; return all columns but ``benchmark`` and those that are corrected over all rows.

    Args:
        a: hits (seeds of a, n, metrics) in [0, 1]; NaN in all runs where any run has no score.
        b: hits (seeds of b, n, metrics) in [0, 1]; NaN likewise.
        rows: ``image_id`` and ``subsets`` of each instance.
        metrics: names.
        macro: returns whether a subset is in the macro mean.
        bootstrap: settings of the intervals; its seed is also the seed of the sign flips.
        flips: number of sign flips, see ``utils.stats.sign_flip_p_value``.
    """
    subsets, clusters = build_subset_masks(rows), assign_clusters(rows)
    layout = ColumnLayout(tuple(subsets), tuple(metrics), macro)
    columns = expand_by_subset(a.mean(axis=0) - b.mean(axis=0), subsets)
    point = compute_means(columns)
    difference = layout.append_means(point[None], point)[0]
    n = layout.append_sums((~np.isnan(columns)).sum(axis=0))
    images = layout.append_minima(count_clusters(columns, clusters))
    totals = layout.append_means(compute_contributions(columns, clusters), point)
    samples = bootstrap_means(columns, clusters, resamples=bootstrap.n_bootstrap, seed=bootstrap.seed)
    of_images = standard_errors(layout.append_means(samples, point), images) ** 2 + _compute_extra_variance(
        totals, n
    )
    values = [layout.append_means(_compute_seed_means(side, subsets), point) for side in (a, b)]
    error, quantile, t_test = combine_variances(difference, of_images, images, values)
    flipped = np.where(np.isnan(difference), np.nan, sign_flip_p_value(totals, bootstrap.seed, flips))
    won, lost = (layout.append_sums(counts) for counts in _count_discordant(a, b, subsets))
    return pd.DataFrame(
        {
            **layout.build_labels(),
            "value_a": values[0].mean(axis=0),
            "value_b": values[1].mean(axis=0),
            "difference": difference,
            "ci_low": np.maximum(difference - quantile * error, -1),
            "ci_high": np.minimum(difference + quantile * error, 1),
            "p": flipped if t_test is None else np.maximum(flipped, t_test),
            "effect": _divide_or_nan(won, won + lost) - 1 / 2,
            "a_only": won,
            "b_only": lost,
            "detectable": (quantile + POWER) * error,
            "n": n,
            "clusters": images,
            "seeds_a": len(a),
            "seeds_b": len(b),
        }
    )


def compute_contributions(columns: Floats, clusters: npt.NDArray[np.int64]) -> Floats:
    """Return each image's contribution to the mean of each column, (k, m); the sum over images is the mean."""
    sums, sizes = compute_cluster_totals(columns, clusters)
    shares: Floats = sums / np.maximum(sizes.sum(axis=0), 1)
    return shares


def _compute_extra_variance(totals: Floats, n: npt.NDArray[np.int64]) -> Floats:
    """Return the variance that one added image per model contributes, (m,).

    The added image has the mean square weight of the images that differ; if none differ, the weight of one instance.
    """
    differ = (totals != 0).sum(axis=0)
    square = np.where(differ > 0, (totals**2).sum(axis=0) / np.maximum(differ, 1), 1 / np.maximum(n, 1) ** 2)
    result: Floats = 2 * square
    return result


def _compute_seed_means(side: Floats, subsets: Mapping[str, npt.NDArray[np.bool_]]) -> Floats:
    """Return each seed's means, (seeds, subsets * metrics)."""
    return np.stack([compute_means(expand_by_subset(hits, subsets)) for hits in side])


def combine_variances(
    difference: Floats, of_images: Floats, images: npt.NDArray[np.int64], values: Sequence[Floats]
) -> tuple[Floats, Floats, Floats | None]:
    """Return standard error, t quantile and t-test p-value of each difference; the module says how.

    The p-values are None if both sides have one seed.

    Args:
        difference: (m,).
        of_images: variance by the choice of images, (m,).
        images: number of images, (m,).
        values: values (seeds, m) of each side.
    """
    from scipy.stats import t

    parts = [(of_images, images - 1)]
    for side in values:
        if len(side) > 1:
            parts.append((side.var(axis=0, ddof=1) / len(side), np.full(len(difference), len(side) - 1)))
    variance = np.sum([part for part, _ in parts], axis=0)
    free = variance**2 / np.sum([part**2 / np.maximum(df, 1) for part, df in parts], axis=0)
    error: Floats = np.sqrt(variance)
    t_test = 2 * t.sf(np.abs(difference) / error, free) if len(parts) > 1 else None
    return error, t.ppf(1 - ALPHA / 2, free), t_test


def _count_discordant(
    a: Floats, b: Floats, subsets: Mapping[str, npt.NDArray[np.bool_]]
) -> tuple[Floats, Floats]:
    """Return how many instances of each column only a and only b has right, (m,) each; means over pairs of seeds."""
    pairs = [(left, right) for left in a for right in b]
    masks = np.stack(list(subsets.values())).astype(float)  # (subsets, n)
    won, lost = (
        np.mean([np.greater(*pair) for pair in ordered_pairs], axis=0)
        for ordered_pairs in (pairs, [p[::-1] for p in pairs])
    )
    return (masks @ won).reshape(-1), (masks @ lost).reshape(-1)


def _divide_or_nan(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, NaN where the whole is zero."""
    result = np.full(len(whole), np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result
