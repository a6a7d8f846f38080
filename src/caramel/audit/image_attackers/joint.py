"""The joint attacker: it sees caption and picture, but not whether they belong together.

Its similarity is s(c, i) = a(c) · b(i), where a says how true a text looks by itself and b how true a picture does;
both are about 0, above it where the thing looks like a positive. So a positive fits a positive, and a negative a
negative. Where both give away who is the negative, it has I2T, T2I and Group right without a look at what either shows.
Whoever cannot tell either gets accuracy and GroupMatch 50 %, I2T and T2I 25 %, Group 12.5 %.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from caramel.arrays import Floats, Ints
from caramel.benchmarks.metrics import outcomes
from caramel.blind.scorers import DECIMALS
from caramel.statistics import share_interval, variance_factor

METRICS = ("accuracy", "i2t", "t2i", "group", "group_match")
Figure = dict[str, float | int | None]  # accuracy or value, ci_low, ci_high, n, unscored


def joint_hits(texts: tuple[Floats, Floats], pictures: tuple[Floats, Floats]) -> pd.DataFrame:
    """Return the hits of the joint attacker on each instance: a column of 0, 1 or NaN (unscored) per metric.

    Args:
        texts: scores in [0, 1] of the captions and of the hard negatives, (n,) each; one half: it cannot tell.
        pictures: the same of their pictures; NaN: not scored.
    """
    a0, a1 = (2 * side - 1 for side in texts)
    b0, b1 = (2 * side - 1 for side in pictures)
    similarities = {"s_c0_i0": a0 * b0, "s_c1_i0": a1 * b0, "s_c0_i1": a0 * b1, "s_c1_i1": a1 * b1}
    return outcomes(pd.DataFrame(similarities), METRICS).hits


def shares(
    hits: Floats, subsets: Mapping[str, Ints], clusters: Ints, *, folds: int, value: str
) -> dict[str, Figure]:
    """Return the share of hits in each subset, with a 95 % interval; where nothing is scored it is None.

    Args:
        hits: (n,) in [0, 1]; NaN: unscored.
        subsets: name -> places of its rows.
        clusters: (n,) number of the group of each row: rows of one are not independent.
        folds: of the cross-validation in which the scores were made; see ``statistics.variance_factor``.
        value: what the share is called.
    """
    found: dict[str, Figure] = {}
    for name, rows in subsets.items():
        at = rows[~np.isnan(hits[rows])]
        share: tuple[float | None, ...] = (None, None, None)
        if len(at):
            cluster = np.unique(clusters[at], return_inverse=True)[1]
            share = share_interval(hits[at], np.zeros_like(at), cluster, factor=variance_factor(folds))
        rounded = [None if end is None else round(end, DECIMALS) for end in share]
        found[name] = {
            **dict(zip((value, "ci_low", "ci_high"), rounded, strict=True)),
            "n": len(at),
            "unscored": len(rows) - len(at),
        }
    return found
