"""Compute the GroupMatch of the joint attacker, which sees captions and images but not which belong together.

Its similarity is s(c, i) = a(c) · b(i). Here a scores how true a text looks by itself, and b how true an
image looks by itself. It finds the right assignment of the two captions to the two images if a and b are both
right or both wrong:

- a tells the true caption from the negative one
- b tells the true image from the negative one

An attacker that can tell only the captions or only the images is at chance.

This is GroupMatch. It tests the sign of the product of two differences, between both texts and between both
images. No other metric is useful here. I2T, T2I and Group compare products of a and b themselves. If both
texts of an instance are on the same side of the zero point of a, none of these metrics can hold, however good
a and b are. With a and b minus their mean over the instance, all of them hold exactly where GroupMatch holds.
So the value of GroupMatch also tells how much of Group can be reached by an attacker that sees the whole
instance but never its relation. Chance is 50 %.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from caramel.benchmarks.metrics import compute_outcomes
from caramel.blind.scorers import DECIMALS
from caramel.utils.arrays import Floats, Ints
from caramel.utils.stats import share_interval, variance_factor

METRICS = ("group_match",)
Figure = dict[str, float | int | None]  # accuracy or value, ci_low, ci_high, n, unscored


def compute_joint_hits(texts: tuple[Floats, Floats], images: tuple[Floats, Floats]) -> pd.DataFrame:
    """Return the hits of the joint attacker on each instance: a column of 0, 1 or NaN (unscored) per metric.

    Args:
        texts: scores of the captions and of the hard negatives, (n,) each. Equal scores are a miss.
        images: scores of the true and of the negative images, (n,) each. NaN: not scored.
    """
    # Minus the mean over the instance. GroupMatch stays that of the given scores, without their rounding errors.
    a, b = ((side[0] - side[1]) / 2 for side in (texts, images))
    similarities = {"s_c0_i0": a * b, "s_c1_i0": -a * b, "s_c0_i1": -a * b, "s_c1_i1": a * b}
    return compute_outcomes(pd.DataFrame(similarities), METRICS).hits


def compute_hit_shares(
    hits: Floats, subsets: Mapping[str, Ints], clusters: Ints, *, folds: int, value: str
) -> dict[str, Figure]:
    """Return the share of hits in each subset, with a 95 % interval; None if no row of the subset is scored.

    Args:
        hits: (n,) in [0, 1]; NaN: unscored.
        subsets: name -> indices of its rows.
        clusters: (n,) index of each row's group; rows of a group are not independent.
        folds: number of folds of the cross-validation that made the scores; see ``stats.variance_factor``.
        value: key of the share in the result.
    """
    shares_by_subset: dict[str, Figure] = {}
    for name, rows in subsets.items():
        at = rows[~np.isnan(hits[rows])]
        share: tuple[float | None, ...] = (None, None, None)
        if len(at):
            cluster = np.unique(clusters[at], return_inverse=True)[1]
            share = share_interval(hits[at], np.zeros_like(at), cluster, factor=variance_factor(folds))
        rounded = [None if end is None else round(end, DECIMALS) for end in share]
        shares_by_subset[name] = {
            **dict(zip((value, "ci_low", "ci_high"), rounded, strict=True)),
            "n": len(at),
            "unscored": len(rows) - len(at),
        }
    return shares_by_subset
