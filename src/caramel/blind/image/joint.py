"""The joint attacker: it sees the captions and the pictures of an instance, but not which belong together.

Its similarity is s(c, i) = a(c) · b(i), where a says how true a text looks by itself and b how true a picture does. It tells
which assignment of the two captions to the two pictures is the right one where it tells both the true caption from the
negative one and the true picture from the negative one, or neither: whoever tells one of them alone is at chance.

That is GroupMatch, which asks for the difference of both texts times that of both pictures, and no other metric is of any use
here. I2T, T2I and Group compare products that have a and b themselves in them: where both texts of an instance are on the
same side of the point that a calls even, none can hold, whatever is known. With a and b less their mean over the instance,
all of them hold exactly where GroupMatch does. So its value says of Group, too, how much can be had by one who sees the whole
instance, but never its relation. By chance it is 50 %.
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
        texts: scores of the captions and of the hard negatives, (n,) each; equal ones: it cannot tell, which is a miss.
        images: the same of their pictures; NaN: not scored.
    """
    # Less the mean over the instance: GroupMatch is that of the scores as they are, without their rounding.
    a, b = ((side[0] - side[1]) / 2 for side in (texts, images))
    similarities = {"s_c0_i0": a * b, "s_c1_i0": -a * b, "s_c0_i1": -a * b, "s_c1_i1": a * b}
    return compute_outcomes(pd.DataFrame(similarities), METRICS).hits


def compute_hit_shares(
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
