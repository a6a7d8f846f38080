"""Chance-corrected agreement of annotators on nominal answers: Cohen's κ, Fleiss' κ and Krippendorff's α.

Each coefficient is one minus observed over expected disagreement, and both are sums over items. They are therefore
computed from sums per item and a weight per item: with weights of one the coefficient itself, with the counts of a
bootstrap sample a resampled one. This makes a thousand resamples one matrix product. statsmodels' ``fleiss_kappa``
needs equally many answers to each item, and ``krippendorff.alpha`` one call per resample; tests compare these
functions with the definitions and with published examples.

Sources: Cohen (1960); Fleiss (1971), for items with different numbers of answers as in Gwet (2014, 2.3);
Krippendorff (2011), "Computing Krippendorff's alpha-reliability", nominal data with missing answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from caramel.utils.arrays import Floats, Ints
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import LEVEL, Z, bootstrap_means, wilson_interval

LEAST_ITEMS = 2  # items that two annotators answered; the spread over fewer is unknown


class Agreement(NamedTuple):
    """A coefficient with its 95 % interval; NaN where it is undefined.

    Attributes:
        value: coefficient, at most 1; 0: agreement by chance.
        low, high: ends of the interval.
        items: items with at least two answers.
    """

    value: float
    low: float
    high: float
    items: int


def compute_disagreements(codes: Ints, coefficient: str) -> tuple[Floats, Callable[[Floats], Floats]]:
    """Return sums per item, and a function from their weighted means to (observed, expected) disagreement.

    Args:
        codes: (n, m) code of each answer; −1: none. ``cohen`` is κ of the first column with all others: each item
            counts once for each of the others who answered it. For m = 2 this is Cohen's κ.
        coefficient: ``cohen``, ``fleiss`` or ``krippendorff``.

    Returns:
        (n, s) sums of the pairable items' answers, zero for other items; and the function (r, s) -> (2, r).
    """
    categories = int(codes.max(initial=-1)) + 1
    hits = codes[:, :, None] == np.arange(categories)  # (n, m, k)
    counts = hits.sum(axis=1).astype(float)  # (n, k)
    if coefficient == "cohen":
        first, others = hits[:, 0].astype(float), hits[:, 1:].sum(axis=1).astype(float)
        pairs = first.sum(axis=1, keepdims=True) * others.sum(axis=1, keepdims=True)
        matches = (first * others).sum(axis=1, keepdims=True)
        sums = np.concatenate([pairs, matches, pairs * first, others * (pairs > 0)], axis=1)

        def split_cohen(means: Floats) -> Floats:
            shares = means[:, 1:] / means[:, :1]
            one, other = shares[:, 1 : categories + 1], shares[:, categories + 1 :]
            return np.stack([1 - shares[:, 0], 1 - (one * other).sum(axis=1)])

        return sums, split_cohen
    size = counts.sum(axis=1)
    pairable = size >= 2
    counts, size = counts * pairable[:, None], size * pairable
    agreeing = np.divide(
        (counts**2).sum(axis=1) - size, size * (size - 1), out=np.zeros(len(size)), where=pairable
    )
    whole = pairable.astype(float)[:, None]
    if coefficient == "fleiss":
        share = np.divide(counts, size[:, None], out=np.zeros_like(counts), where=pairable[:, None])
        sums = np.concatenate([whole, agreeing[:, None], share], axis=1)

        def split_fleiss(means: Floats) -> Floats:
            shares = means[:, 1:] / means[:, :1]
            return np.stack([1 - shares[:, 0], 1 - (shares[:, 1:] ** 2).sum(axis=1)])

        return sums, split_fleiss
    assert coefficient == "krippendorff", coefficient
    sums = np.concatenate([size[:, None], (size * (1 - agreeing))[:, None], counts], axis=1)
    items = len(codes)

    def split_krippendorff(means: Floats) -> Floats:
        total = means[:, 0] * items  # answers that can be paired
        squares = (means[:, 2:] ** 2).sum(axis=1) * items**2
        return np.stack([means[:, 1] / means[:, 0], (total**2 - squares) / (total * (total - 1))])

    return sums, split_krippendorff


def compute_agreement(codes: Ints, coefficient: str, *, bootstrap: Bootstrap) -> Agreement:
    """Return a coefficient with its interval by a bootstrap over items.

    The interval is that of the log of observed over expected disagreement, with the bootstrap's standard error and the
    t quantile of items − 1 degrees of freedom, so that it cannot exceed 1. A resample in which all answers agree counts
    with half a disagreement, as otherwise its log would not exist. If all answers agree, the observed disagreement is at
    most the upper end of Wilson's interval for none of n items. If only one answer was ever given, agreement by chance
    is certain and the coefficient is undefined: NaN. bench/annotation_coverage.py measures the coverage.

    Args:
        codes: (n, m) code of each answer; −1: none.
        coefficient: as in ``compute_disagreements``.
        bootstrap: settings of the interval.
    """
    from scipy.stats import t

    sums, split = compute_disagreements(codes, coefficient)
    sums = sums[sums[:, 0] > 0]
    items = len(sums)
    if not items:
        return Agreement(np.nan, np.nan, np.nan, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ((observed,), (expected,)) = split(_scale_to_all_rows(sums.mean(axis=0)[None], items, len(codes)))
        if not expected > 0:
            return Agreement(np.nan, np.nan, np.nan, items)
        value = 1 - observed / expected
        if items < LEAST_ITEMS:
            return Agreement(float(value), np.nan, np.nan, items)
        if observed <= 0:
            return Agreement(1.0, float(1 - wilson_interval(0.0, float(items), Z)[1] / expected), 1.0, items)
        means = bootstrap_means(sums, np.arange(items), resamples=bootstrap.n_bootstrap, seed=bootstrap.seed)
        samples = split(_scale_to_all_rows(means, items, len(codes)))
        ratio = np.maximum(samples[0], 0.5 / items) / samples[1]
    ratio = ratio[np.isfinite(ratio)]
    error = float(np.log(ratio).std(ddof=1)) * (items / (items - 1)) ** 0.5 if len(ratio) > 1 else np.inf
    half = float(t.ppf((1 + LEVEL) / 2, items - 1)) * error
    low, high = (1 - observed / expected * np.exp(sign * half) for sign in (1, -1))
    return Agreement(float(value), float(low), float(high), items)


def _scale_to_all_rows(means: Floats, items: int, rows: int) -> Floats:
    """Return means over the pairable items as means over all rows; see ``split_krippendorff``."""
    return means * (items / rows)


def compute_pairwise_agreement(codes: Ints, *, bootstrap: Bootstrap) -> dict[tuple[int, int], Agreement]:
    """Return Cohen's κ of each pair of columns that have common items."""
    agreements = {}
    for one in range(codes.shape[1]):
        for other in range(one + 1, codes.shape[1]):
            agreement = compute_agreement(codes[:, [one, other]], "cohen", bootstrap=bootstrap)
            if agreement.items:
                agreements[one, other] = agreement
    return agreements
