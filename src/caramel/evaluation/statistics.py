"""Intervals: a bootstrap clustered on the image, and a t interval over seeds.

Instances of one image are not independent: its negatives share the positive similarity. So
whole images are drawn, with replacement (the cluster bootstrap; Davison & Hinkley 1997, 3.8).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
LEVEL = 0.95
_BLOCK = 2**22  # weights held at a time: 32 MB


class Interval(NamedTuple):
    """A value and its 95 % interval; NaN where there is too little to say."""

    value: float
    low: float
    high: float


class Seeds(NamedTuple):
    """Mean over training seeds, standard deviation (n - 1) and 95 % t interval of the mean."""

    mean: float
    sd: float
    low: float
    high: float
    n: int


def means(values: Floats) -> Floats:
    """Return the mean of each column over its rows that are not NaN; NaN if all are. (n, m) -> (m,)."""
    scored = ~np.isnan(values)
    return _divided(np.where(scored, values, 0.0).sum(axis=0), scored.sum(axis=0))


def resampled_means(values: Floats, clusters: npt.NDArray[np.int64], *, resamples: int, seed: int) -> Floats:
    """Return the column means in each bootstrap sample of whole clusters, (n, m) -> (resamples, m).

    Args:
        values: (n, m); NaN is left out of its column's mean.
        clusters: (n,) cluster of each row, in [0, k).
        resamples: number of bootstrap samples.
        seed: of the draw; equal seeds and clusters give equal samples, so columns are paired.

    A sample that holds no value of a column has NaN there. With fewer than two clusters
    nothing is known about the spread, and all is NaN.
    """
    count = int(clusters.max()) + 1 if len(clusters) else 0
    if count < 2:
        return np.full((resamples, values.shape[1]), np.nan)
    scored = ~np.isnan(values)
    sums, sizes = np.zeros((count, values.shape[1])), np.zeros((count, values.shape[1]))
    np.add.at(sums, clusters, np.where(scored, values, 0.0))
    np.add.at(sizes, clusters, scored)
    rng = np.random.default_rng(seed)
    share = np.full(count, 1 / count)
    block = max(1, _BLOCK // count)
    parts = []
    for start in range(0, resamples, block):
        weights = rng.multinomial(count, share, size=min(block, resamples - start)).astype(float)
        parts.append(_divided(weights @ sums, weights @ sizes))
    return np.concatenate(parts)


def percentiles(samples: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the 95 % percentile interval of each column, (resamples, m) -> (m,), (m,).

    NaN samples are left out; a column of nothing else has NaN ends.
    """
    low, high = np.full(samples.shape[1], np.nan), np.full(samples.shape[1], np.nan)
    known = ~np.isnan(samples).all(axis=0)
    tail = (1 - LEVEL) / 2
    if known.any():
        low[known], high[known] = np.nanquantile(samples[:, known], [tail, 1 - tail], axis=0)
    return low, high


def clustered_interval(
    values: Floats, clusters: npt.NDArray[np.int64], *, resamples: int, seed: int
) -> Interval:
    """Return mean and clustered bootstrap interval of one column of values, shape (n,)."""
    samples = resampled_means(values[:, None], clusters, resamples=resamples, seed=seed)
    low, high = percentiles(samples)
    return Interval(float(means(values[:, None])[0]), float(low[0]), float(high[0]))


def paired_difference(
    a: Floats, b: Floats, clusters: npt.NDArray[np.int64], *, resamples: int, seed: int
) -> tuple[Floats, Floats]:
    """Return the mean difference a - b of each column, (m,), and its bootstrap samples, (resamples, m).

    Args:
        a: (seeds of a, n, m) scores of the same instances by each training seed of a model.
        b: (seeds of b, n, m).
        clusters: (n,) cluster of each instance.
        resamples: number of bootstrap samples.
        seed: of the draw.

    An instance counts where every run of both scored it. Each sample draws images, the same
    for both, and training seeds anew for each: the interval speaks of another test set *and* of
    another training. With s seeds the second part is too narrow, by (s - 1) / s in variance.
    """
    unscored = np.isnan(a).any(axis=0) | np.isnan(b).any(axis=0)
    runs = np.concatenate([a, b])
    runs[:, unscored] = np.nan
    columns = np.concatenate(list(runs), axis=1)  # (n, runs * m)
    shape = (-1, len(runs), a.shape[2])
    point = means(columns).reshape(shape)[0]
    samples = resampled_means(columns, clusters, resamples=resamples, seed=seed).reshape(shape)
    rng = np.random.default_rng([seed, 1])
    sides = []
    for part in (samples[:, : len(a)], samples[:, len(a) :]):
        n = part.shape[1]
        weights = rng.multinomial(n, np.full(n, 1 / n), size=resamples) / n
        sides.append(np.einsum("rs,rsm->rm", weights, part))
    return point[: len(a)].mean(axis=0) - point[len(a) :].mean(axis=0), sides[0] - sides[1]


def over_seeds(values: Floats) -> Seeds:
    """Return mean, standard deviation and t interval over the values of several seeds, shape (n,).

    The interval is not clipped to [0, 1]. One seed has no spread: NaN.
    """
    n = len(values)
    if n < 2:
        return Seeds(float(values[0]) if n else np.nan, np.nan, np.nan, np.nan, n)
    from scipy.stats import t

    mean, sd = float(values.mean()), float(values.std(ddof=1))
    half = float(t.ppf((1 + LEVEL) / 2, n - 1)) * sd / n**0.5
    return Seeds(mean, sd, mean - half, mean + half, n)


def _divided(sums: Floats, counts: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> Floats:
    """Return sums / counts, NaN where the count is zero."""
    result = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=result, where=counts > 0)
    return result
