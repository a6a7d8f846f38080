"""Statistics: intervals by a bootstrap clustered on the image, t intervals over seeds, and sign-flip tests.

Instances of one image are not independent, because its negatives share the positive similarity. Therefore
whole images are drawn with replacement (the cluster bootstrap; Davison & Hinkley 1997, 3.8), and the signs of
whole images are flipped. bench/intervals.py measures how often the intervals contain the truth and how often
the tests are wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal, localcontext
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from caramel.utils.arrays import Bools, Floats, Ints

LEVEL = 0.95
Z = 1.959963984540054  # 97.5th percentile of the normal distribution
FLIPS = 10_000  # default number of sign draws if there are too many clusters to take all flips
GUESS_FLIPS = 1999  # draws for a blind attacker's guesses, because many are tested
LEAST_GUESS_P = 1 / (GUESS_FLIPS + 1)  # the smallest p that this number of draws can give
EXHAUSTIVE = 13  # up to this number of differing clusters all 2**n sign flips are taken
Some = Floats | float
_BLOCK = 2**22  # weights in memory at a time: 32 MB
_PRODUCT = 2**16  # signs of one product: half a MB, which stays in a processor's cache
_DRAWING = Lock()  # ``lru_cache`` lets all threads compute what none has yet
_SIGNS = 4_000_000  # signs of guesses in memory at a time


class SeedSummary(NamedTuple):
    """Mean over training seeds, standard deviation (n - 1) and 95 % t interval of the mean."""

    mean: float
    sd: float
    low: float
    high: float
    n: int


class ClusterTotals(NamedTuple):
    """Sums and counts of the values of k clusters in m columns, (k, m) each."""

    sums: Floats
    sizes: Floats

    def count_clusters(self) -> Ints:
        """Return the number of clusters that hold a value of each column, (m,)."""
        counts: Ints = (self.sizes > 0).sum(axis=0)
        return counts


def compute_means(values: Floats) -> Floats:
    """Return the mean of each column over its rows that are not NaN; NaN if all are. (n, m) -> (m,)."""
    scored = ~np.isnan(values)
    return _divide_or_nan(np.where(scored, values, 0.0).sum(axis=0), scored.sum(axis=0))


def compute_cluster_totals(values: Floats, clusters: Ints) -> ClusterTotals:
    """Return sums and counts of the values of each cluster, (n, m), (n,) -> (k, m); NaN is left out."""
    shape = (int(clusters.max()) + 1 if len(clusters) else 0, values.shape[1])
    cells = (clusters[:, None] * shape[1] + np.arange(shape[1])).ravel()

    def sum_rows(rows: Floats | Bools) -> Floats:
        return np.asarray(np.bincount(cells, rows.ravel(), shape[0] * shape[1]), float).reshape(shape)

    scored = ~np.isnan(values)
    return ClusterTotals(sum_rows(np.where(scored, values, 0.0)), sum_rows(scored))


def bootstrap_means(values: Floats, clusters: Ints, *, resamples: int, seed: int) -> Floats:
    """Return the column means in each bootstrap sample of whole clusters, (n, m) -> (resamples, m).

    Args:
        values: (n, m); NaN is left out of its column's mean.
        clusters: (n,) cluster of each row, in [0, k).
        resamples: number of bootstrap samples.
        seed: seed of the draw; equal seeds and clusters give equal samples, so columns are paired.

    A sample without any value of a column has NaN there. With fewer than two clusters the spread is unknown,
    and all values are NaN.
    """
    return bootstrap_cluster_means(compute_cluster_totals(values, clusters), resamples=resamples, seed=seed)


def bootstrap_cluster_means(totals: ClusterTotals, *, resamples: int, seed: int) -> Floats:
    """Return what ``bootstrap_means`` returns of the values with these totals, (resamples, m)."""
    sums, sizes = totals
    count = len(sums)
    if count < 2:
        return np.full((resamples, sums.shape[1]), np.nan)
    if count * resamples <= _BLOCK:
        weights = _get_bootstrap_weights(count, resamples, seed)
        return _divide_or_nan(weights @ sums, weights @ sizes)
    parts = [_divide_or_nan(w @ sums, w @ sizes) for w in _iter_bootstrap_weights(count, resamples, seed)]
    return np.concatenate(parts)


def _iter_bootstrap_weights(count: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each cluster occurs in each bootstrap sample.

    (resamples, clusters), at most ``_BLOCK`` at a time.
    """
    rng = np.random.default_rng(seed)
    share = np.full(count, 1 / count)
    block = max(1, _BLOCK // count)
    for start in range(0, resamples, block):
        yield rng.multinomial(count, share, size=min(block, resamples - start)).astype(float)


def _get_bootstrap_weights(count: int, resamples: int, seed: int) -> Floats:
    """Return the weights as one array; threads that need the same ones wait for the first, and share them."""
    with _DRAWING:
        return _draw_bootstrap_weights(count, resamples, seed)


@lru_cache(2)  # all figures of a benchmark use the same samples
def _draw_bootstrap_weights(count: int, resamples: int, seed: int) -> Floats:
    return np.concatenate([*_iter_bootstrap_weights(count, resamples, seed)])


def count_clusters(values: Floats, clusters: Ints) -> Ints:
    """Return the number of clusters that hold a value of each column. (n, m), (n,) -> (m,)."""
    return compute_cluster_totals(values, clusters).count_clusters()


def fraction_intervals(values: Floats, samples: Floats, clusters: Ints) -> tuple[Floats, Floats]:
    """Return the ends of the 95 % interval of fractions, in [0, 1]. (m,), (resamples, m), (m,) -> (m,), (m,).

    The interval is Wilson's (1927) with an effective number of instances and the t quantile of clusters - 1
    degrees of freedom (Korn & Graubard 1998; Dean & Pagano 2015; Franco et al. 2019). With the effective
    number, a fraction would have the standard error of the bootstrap. The interval contains the truth where
    the percentile interval is too
    short: with few images, or a fraction near 0 or 1.

    Args:
        values: the fractions.
        samples: samples of the cluster bootstrap.
        clusters: number of clusters that hold a value of each column.

    If nothing varies (all are hits, or none), the effective number is the number of clusters. It is no
    smaller, even if the instances of an image always agree. With fewer than two clusters the ends are NaN.
    """
    from scipy.stats import t

    low, high = np.full(len(values), np.nan), np.full(len(values), np.nan)
    known = (clusters >= 2) & ~np.isnan(values)
    p, k = values[known], clusters[known]
    square = standard_errors(samples[:, known], k) ** 2
    n = np.where(square > 0, p * (1 - p) / np.where(square > 0, square, 1.0), k)
    below, above = wilson_interval(p, n, t.ppf((1 + LEVEL) / 2, k - 1))
    # Rounding must not put the value itself outside.
    low[known], high[known] = np.minimum(below, p), np.maximum(above, p)
    return low, high


def standard_errors(samples: Floats, clusters: Ints) -> Floats:
    """Return the standard error of each column from its bootstrap samples, ignoring NaN; (m,).

    The bootstrap's variance is too small by (k - 1) / k for k clusters. This is corrected.
    """
    known = ~np.isnan(samples)
    count = known.sum(axis=0)
    centred = np.where(known, samples - compute_means(samples), 0.0)
    # Sums over equal samples may leave rounding errors.
    centred[np.abs(centred) < 1e-12] = 0.0
    variance = _divide_or_nan((centred**2).sum(axis=0), np.maximum(count - 1, 0))
    return np.sqrt(variance * _divide_or_nan(clusters.astype(float), np.maximum(clusters - 1, 0)))


def sign_flip_p_value(totals: Floats, seed: int, flips: int = FLIPS) -> Floats:
    """Return the two-sided p-value of each column of paired totals, (k, m) -> (m,).

    If two models are equally good, the images' differences are equally likely with the opposite sign. p is
    the share of sign flips whose sum is at least as far from zero as the observed one (Fisher's randomisation
    test; of whole images, as in Cameron et al. 2008). If at most ``EXHAUSTIVE`` clusters differ, all flips
    are taken. Otherwise ``flips`` are drawn and the observed one counts as one more, so that the level is
    exact (Phipson & Smyth 2010). If nothing differs, p is 1.

    Args:
        totals: contribution of each cluster to the difference of the two models.
        seed: seed of the draw.
        flips: number of draws; the smallest p is 1 / (flips + 1).
    """
    result = np.ones(totals.shape[1])
    differ = totals != 0
    few = differ.sum(axis=0) <= EXHAUSTIVE
    for column in np.flatnonzero(few & differ.any(axis=0)):
        result[column] = _exhaustive_p_value(totals[differ[:, column], column])
    many = np.flatnonzero(~few)
    if len(many):
        rows = totals[differ[:, many].any(axis=1)][:, many]
        limit = _compute_limit(rows)
        sums = iter_flipped_sums(rows, flips, seed)
        above = sum((np.abs(block_sums) >= limit).sum(axis=0) for block_sums in sums)
        result[many] = (above + 1) / (flips + 1)
    return result


def above_chance_p_value(totals: Floats, rng: np.random.Generator, *, factor: float) -> Floats:
    """Return the one-sided p-value of each column of guesses' totals, (k, o, m) -> (m,).

    An attacker that cannot tell which of o texts is the false one picks each of them equally often. p is the
    share of draws whose sum is at least as far above chance as the observed one. In a draw, the false text is
    drawn anew for whole clusters (Fisher's randomisation test, as in ``sign_flip_p_value``). The spread of
    the draws is widened by the root of ``factor`` (see ``variance_factor``).

    Args:
        totals: for each cluster, how often each of the o texts was picked as the false one, weighted, minus
            chance. The last text is the false one.
        rng: random generator of the draws.
        factor: factor that multiplies the variance of the draws.
    """
    clusters, options, columns = totals.shape
    limit = totals[:, -1].sum(axis=0) - 1e-9
    block, reached = max(1, _SIGNS // clusters), np.zeros(columns)
    for start in range(0, GUESS_FLIPS, block):
        drawn = rng.integers(0, options, size=(min(block, GUESS_FLIPS - start), clusters), dtype=np.int8)
        sums = sum((drawn == o).astype(np.float64) @ totals[:, o] for o in range(options))
        reached += (factor**0.5 * np.asarray(sums) >= limit).sum(axis=0)
    return np.asarray((reached + 1) / (GUESS_FLIPS + 1))


def format_p(p: float, form: str, *, least: float, uncorrected: float | None = None, equals: str = "") -> str:
    """Return a p-value as text.

    If the draws could not give a smaller one, it is rounded up and preceded by "≤ ".

    Args:
        p: in (0, 1]; NaN, for a comparison that was not tested, becomes a dash.
        form: number format, such as ``.2g``.
        least: smallest p of the test: 1 / (flips + 1) of ``sign_flip_p_value``, ``LEAST_GUESS_P`` of
            ``above_chance_p_value``.
        uncorrected: the p-value before correction, if p is corrected.
        equals: prefix of any other p, such as "= ".
    """
    if np.isnan(p):
        return "–"
    # Stored figures are rounded to six decimals.
    if (p if uncorrected is None else uncorrected) > least + 1e-6:
        return f"{equals}{p:{form}}"
    with localcontext(rounding=ROUND_CEILING):
        # Nine digits, because 3 * 0.0001 is slightly above 0.0003.
        bound = format(Decimal(f"{max(p, least):.9g}"), form)
    return f"≤ {float(bound):{form}}"  # without the trailing zeros of decimals


def iter_flipped_sums(totals: Floats, flips: int, seed: int) -> Iterator[Floats]:
    """Yield the sums of totals (k, m) under random signs of the k clusters, in parts of (flips, m)."""
    rng = np.random.default_rng(seed)
    clusters = max(1, len(totals))
    block, part = max(1, _BLOCK // clusters), max(1, _PRODUCT // clusters)
    for start in range(0, flips, block):
        signs = rng.integers(0, 2, size=(min(block, flips - start), len(totals)), dtype=np.int8)
        for first in range(0, len(signs), part):
            yield (2.0 * signs[first : first + part] - 1.0) @ totals


def holm_correction(p: Floats) -> Floats:
    """Return Holm's (1979) adjusted p-values, (m,). NaN stays NaN and does not count as a test.

    If all tests with an adjusted p below 5 % are rejected, the probability of any false claim among all tests
    is at most 5 %, however they depend on each other.
    """
    adjusted = np.full(len(p), np.nan)
    positions = np.flatnonzero(~np.isnan(p))
    order = positions[np.argsort(p[positions], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted


def summarise_seeds(values: Floats) -> SeedSummary:
    """Return mean, standard deviation and t interval over the values of several seeds, shape (n,).

    The interval is not clipped to [0, 1]. A single seed has no spread: NaN.
    """
    n = len(values)
    if n < 2:
        return SeedSummary(float(values[0]) if n else np.nan, np.nan, np.nan, np.nan, n)
    from scipy.stats import t

    mean, sd = float(values.mean()), float(values.std(ddof=1))
    half = float(t.ppf((1 + LEVEL) / 2, n - 1)) * sd / n**0.5
    return SeedSummary(mean, sd, mean - half, mean + half, n)


def variance_factor(folds: int) -> float:
    """Return the factor by which folds that learn from each other may multiply the variance of an accuracy.

    On a data set with nothing to find, the variance is up to about twice that of independent guesses
    (Dietterich 1998; Bengio & Grandvalet 2004). The factor 1 + K / (K − 1) for K folds is the one of Nadeau &
    Bengio (2003).
    """
    return 1 + folds / (folds - 1)


def wilson_interval(share: Some, n: Some, z: Some = Z) -> tuple[Floats, Floats]:
    """Return the ends of the score interval of shares (Wilson 1927), in [0, 1]: numbers or equal-shaped arrays.

    Args:
        share: hits divided by n; half hits, such as ties, may be counted.
        n: may be an effective number; if it is 0, the interval is (0, 1).
        z: quantile of the normal distribution, or of t if the variance behind n is an estimate.
    """
    share, n, square = (np.asarray(value, np.float64) for value in (share, n, z**2))
    centre = (share * n + square / 2) / (n + square)
    half = np.sqrt(square * (share * (1 - share) * n + square / 4)) / (n + square)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def share_interval(
    values: Floats, strata: Ints, clusters: Ints, *, factor: float
) -> tuple[float, float, float]:
    """Return (mean over strata of their means, low, high): a 95 % interval for a share in [0, 1].

    Wilson's interval at n = p(1 − p)/v rows, where v is the variance of the mean by linearisation over k
    clusters (Kish 1965, 6.5), with the t quantile of k − 1 degrees of freedom, as in ``fraction_intervals``:
    a few clusters that happen to agree show nothing. If v is 0, it is not an estimate: n is then k, with the
    normal quantile. With a single cluster the spread is unknown: (0, 1).

    Args:
        values: (n,) in [0, 1].
        strata: (n,) stratum of each row, in [0, k), none of them empty; all strata have equal weight.
        clusters: (n,) cluster of each row, in [0, m).
        factor: factor that multiplies v; see ``variance_factor``.
    """
    from scipy.stats import t

    sizes = np.bincount(strata)
    means = np.bincount(strata, values) / sizes
    share, k = float(means.mean()), int(clusters.max()) + 1
    if k < 2:
        return share, 0.0, 1.0
    residuals = (values - means[strata]) / (sizes[strata] * len(sizes))
    variance = factor * k / (k - 1) * float((np.bincount(clusters, residuals) ** 2).sum())
    rows, quantile = k / factor, Z
    if variance > 1e-12:
        rows, quantile = share * (1 - share) / variance, float(t.ppf((1 + LEVEL) / 2, k - 1))
    low, high = (float(end) for end in wilson_interval(share, rows, quantile))
    return share, min(share, low), max(share, high)


def _exhaustive_p_value(totals: Floats) -> float:
    """Return the p-value over all sign flips of a few totals, none of them zero. (k,)."""
    sums = np.zeros(1)
    for total in totals:
        sums = np.concatenate([sums + total, sums - total])
    return float((np.abs(sums) >= _compute_limit(totals[:, None])[0]).mean())


def _compute_limit(totals: Floats) -> Floats:
    """Return each column's absolute sum, slightly reduced so that equal sums reach it despite rounding."""
    limit: Floats = np.abs(totals.sum(axis=0)) - 1e-9 * np.abs(totals).sum(axis=0)
    return limit


def _divide_or_nan(sums: Floats, counts: npt.NDArray[np.float64] | Ints) -> Floats:
    """Return sums / counts, NaN where the count is zero."""
    result = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=result, where=counts > 0)
    return result
