"""Estimate the score on those instances that are truly right, where some instances of a data set are wrong.

An instance is wrong if its "negative" is true of the image as well, or its caption is not. h is the hit of an
instance, V whether it is truly right (1 or 0), and J the verdict of a judge, which may err. Wanted is
θ = E[hV] / E[V].

- ``correct_rogan_gladen`` needs J of every instance, and how often the judge accepts wrong ones (f). After Rogan &
  Gladen (1978), E[V] = (E[J] − f) / (s − f) and E[hV] = (E[hJ] − f E[h]) / (s − f), where s is how often it accepts
  right ones. In the ratio s cancels: θ = (E[hJ] − f E[h]) / (E[J] − f). The interval has the uncertainty of f, as Lee et
  al. 2025 ask for (arXiv 2511.21140). It holds only if the judge's errors do not depend on the hits: a judge that
  errs as the model does gives a false θ.
- ``correct_prediction_powered`` needs J of every instance and V of a random sample (Angelopoulos et al. 2023;
  compared with the above for judges in arXiv 2601.05420). It holds however the judge errs. The weight λ of the
  verdicts is tuned (PPI++, Angelopoulos et al. 2024): a useless judge costs nothing.

The interval of both is Wilson's with an effective number of instances, as in ``stats.fraction_intervals``. It is
joined with Fieller's interval (1954), which shows how unsure the ratio's denominator is, and does not depend on whether
the estimate leaves [0, 1].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from caramel.utils.arrays import Bools, Floats, Ints
from caramel.utils.stats import LEVEL, wilson_interval


class CorrectedScore(NamedTuple):
    """A score in [0, 1] with its 95 % interval; NaN and [0, 1] if the data do not determine it."""

    score: float
    low: float
    high: float


UNKNOWN = CorrectedScore(float("nan"), 0.0, 1.0)


class ErrorCount(NamedTuple):
    """How many of ``n`` wrong instances a judge accepted, in a test with known answers."""

    accepted: int
    n: int


def correct_rogan_gladen(
    hits: Floats, verdicts: Floats, clusters: Ints, false_accepts: ErrorCount
) -> CorrectedScore:
    """Return the score on the truly right instances, from verdicts and the judge's rate of false accepts.

    Args:
        hits: (n,) in [0, 1].
        verdicts: (n,) 1: the judge accepts the instance as right; 0: it does not.
        clusters: (n,) cluster of each instance.
        false_accepts: from wrong instances other than these; with none of them, the result is unknown.
    """
    if not false_accepts.n:
        return UNKNOWN
    rate = false_accepts.accepted / false_accepts.n
    room = float(verdicts.mean()) - rate
    if room <= 0:  # the judge accepts no more than it would accept of wrong instances
        return UNKNOWN
    right = float((hits * verdicts).mean() - rate * hits.mean())
    parts = np.stack([hits * (verdicts - rate), verdicts - rate])
    influence = (parts - parts.mean(axis=1, keepdims=True)) / len(hits)
    # One success and one failure added, so that a judge without an error in a few tests is not thought perfect.
    smooth = (false_accepts.accepted + 1) / (false_accepts.n + 2)
    slopes = np.array([float(hits.mean()), 1.0])  # of both sums in the rate, up to the sign
    of_rate = np.outer(slopes, slopes) * smooth * (1 - smooth) / (false_accepts.n + 2)
    return _build_interval(right, room, influence, clusters, len(np.unique(clusters)), of_rate)


def correct_prediction_powered(
    hits: Floats, verdicts: Floats, truths: Floats, clusters: Ints
) -> CorrectedScore:
    """Return the score on the truly right instances, from verdicts and the truth of a random sample.

    Args:
        hits: (n,) in [0, 1].
        verdicts: (n,) 1 or 0; see ``correct_rogan_gladen``.
        truths: (n,) 1: truly right, 0: wrong, NaN: not in the sample. If it is known of all, no verdict is used.
        clusters: (n,) cluster of each instance; instances of the sample should be drawn without regard to it.
    """
    sample = ~np.isnan(truths)
    if not sample.any() or not truths[sample].any():
        return UNKNOWN
    weight, score = 0.0, float((hits * truths)[sample].sum() / truths[sample].sum())
    if not sample.all():
        weight = _tune_weight((hits - score) * verdicts, (hits - score) * truths, sample)

    def estimate(values: Floats) -> float:
        """Return the mean of values * V: of the sample, corrected by the verdicts of all others."""
        known = float((values * (truths - weight * verdicts))[sample].mean())
        further = float((values * verdicts)[~sample].mean()) if weight else 0.0
        return known + weight * further

    share = estimate(np.ones(len(hits)))
    if share <= 0:
        return UNKNOWN
    influence = np.zeros((2, len(hits)))
    for part, values in (
        (sample, np.where(sample, truths, 0.0) - weight * verdicts),
        (~sample, weight * verdicts),
    ):
        if part.any():
            both = np.stack([hits[part] * values[part], values[part]])
            influence[:, part] = (both - both.mean(axis=1, keepdims=True)) / part.sum()
    # One false accept of the rarer outcome added: a small sample without one does not show a judge without errors.
    error = np.array([float(score < 0.5), 1.0]) * weight / sample.sum()
    further = np.outer(error, error)
    return _build_interval(
        estimate(hits), share, influence, clusters, len(np.unique(clusters[sample])), further
    )


def _tune_weight(predicted: Floats, known: Floats, sample: Bools) -> float:
    """Return λ in [0, 1], the weight of the verdicts with the smallest variance."""
    spread = float(predicted[sample].var())
    if spread == 0:
        return 0.0
    common = float(np.cov(predicted[sample], known[sample], bias=True)[0, 1])
    ratio = float(sample.sum() / (~sample).sum())
    return min(1.0, max(0.0, common / (spread * (1 + ratio))))


def _build_interval(
    top: float, bottom: float, influence: Floats, clusters: Ints, count: int, further: Floats
) -> CorrectedScore:
    """Return top / bottom, clipped to [0, 1], with its interval.

    It holds Wilson's interval with n = p(1 − p)/v, where v is the instances' variance by linearisation, and Fieller's
    with all variance. Where the ratio leaves (0, 1), or v is 0, n is ``count``.

    Args:
        top: estimate of E[hV], up to a factor.
        bottom: estimate of E[V], up to the same factor; positive.
        influence: (2, n) of each instance on both; the sums of the squares of clusters' sums are the variances.
        clusters: (n,) cluster of each instance.
        count: number of clusters behind the score; with less than 2 the spread is unknown.
        further: (2, 2) covariance from other sources.
    """
    from scipy.stats import t

    score = top / bottom
    clipped = min(1.0, max(0.0, score))
    if count < 2:
        return CorrectedScore(clipped, 0.0, 1.0)
    sums = np.stack([np.bincount(clusters, values) for values in influence])
    covariance = count / (count - 1) * (sums @ sums.T)
    variance = (
        float(covariance[0, 0] - 2 * score * covariance[0, 1] + score**2 * covariance[1, 1]) / bottom**2
    )
    quantile = float(t.ppf((1 + LEVEL) / 2, count - 1))
    inside = variance > 1e-12 and 0 < score < 1
    n = score * (1 - score) / variance if inside else count
    low, high = (float(end) for end in wilson_interval(clipped, n, quantile))
    fieller_low, fieller_high = _find_fieller_ends(top, bottom, covariance + further, quantile)
    return CorrectedScore(
        clipped, min(clipped, low, max(0.0, fieller_low)), max(clipped, high, min(1.0, fieller_high))
    )


def _find_fieller_ends(top: float, bottom: float, covariance: Floats, quantile: float) -> tuple[float, float]:
    """Return the least and the greatest θ for which top − θ bottom is within ``quantile`` standard errors of 0.

    They are infinite if the bottom is that close to 0 itself (Fieller 1954).
    """
    square = bottom**2 - quantile**2 * float(covariance[1, 1])
    linear = top * bottom - quantile**2 * float(covariance[0, 1])
    constant = top**2 - quantile**2 * float(covariance[0, 0])
    if square <= 0:
        return -np.inf, np.inf
    root = max(0.0, linear**2 - square * constant) ** 0.5
    return (linear - root) / square, (linear + root) / square
