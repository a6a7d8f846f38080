"""Compute confidence sets for ranks: which order of models holds, and which models are tied.

The method is the one of Mogstad, Romano, Shaikh & Wilhelm 2024 ("Inference for Ranks with Applications to Mobility
across Neighbourhoods and Academic Achievement across Countries", Review of Economic Studies, doi:10.1093/restud/rdad006):
all one-sided hypotheses "j is not better than k" are tested together, with stepwise control of the familywise
error (Romano & Wolf 2005). A model's rank is then at least 1 + the number of models shown to be better, and at
most the number of all models − the number shown to be worse. With a probability of 95 % or more, all models' sets
hold their true ranks at once.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from caramel.utils.arrays import Bools, Floats, Ints
from caramel.utils.stats import LEVEL, holm_correction, iter_flipped_sums

DRAWS = 4999  # of signs; the smallest p is 1 / 5000
ALPHA = 1 - LEVEL


def find_paired_order(totals: Floats, seed: int) -> Bools:
    """Return which models are shown to be better than which, from per-cluster totals: [j, k] is j above k.

    The bootstrap is a wild one: signs of whole clusters are drawn at random (Rademacher weights), as in
    ``stats.sign_flip_p_value``, and each difference is divided by the root of its sum of squares. For two models
    this is the exact test; a percentile bootstrap is too bold where models differ on few clusters.

    Args:
        totals: (clusters, models), contribution of each cluster to each model's value.
        seed: seed of the draws.
    """
    count = totals.shape[1]
    first, second = np.triu_indices(count, 1)
    gram = totals.T @ totals
    norms = np.sqrt(np.maximum(gram[first, first] + gram[second, second] - 2 * gram[first, second], 0))
    norms[norms < 1e-12 * max(1.0, float(np.sqrt(gram.max(initial=0))))] = (
        np.inf
    )  # equal models are never separated
    values = totals.sum(axis=0)
    observed = (values[first] - values[second]) / norms
    draw = np.concatenate([*iter_flipped_sums(totals, DRAWS, seed)])
    drawn = draw[:, first] - draw[:, second]
    drawn /= norms
    statistics, draws = np.concatenate([observed, -observed]), np.concatenate([drawn, -drawn], axis=1)
    active = np.ones(len(statistics), bool)
    while active.any():
        largest = draws[:, active].max(axis=1)
        reached = (largest[:, None] >= statistics[None, active] - 1e-9).sum(axis=0)
        rejected = (reached + 1) / (len(draws) + 1) <= ALPHA
        if not rejected.any():
            break
        active[np.flatnonzero(active)[rejected]] = False
    pairs = np.concatenate([np.stack([first, second], 1), np.stack([second, first], 1)])
    return _close_order(pairs[~active], count)


def find_published_order(values: Floats, n: Ints, rounding: float) -> Bools:
    """Return which models are shown to be better than which, from their shares alone: [j, k] is j above k.

    How models' hits depend on each other is unknown. The variance of a difference is taken as that of independent
    hits, which is an upper bound unless hits of two models exclude each other; so the sets are wider than paired
    ones. Instances count as independent. Shares have one hit and one miss added (Agresti & Caffo 2000), differences
    are reduced by their rounding, and Holm's correction covers all ordered pairs, however they depend on each other.

    Args:
        values: (models,) shares in [0, 1].
        n: (models,) instances behind each.
        rounding: greatest error of a value by rounding, such as 0.00005 for per cent with two decimals.
    """
    from scipy.stats import norm

    shares = (values * n + 1) / (n + 2)
    variances = shares * (1 - shares) / (n + 2)
    first, second = np.nonzero(~np.eye(len(values), dtype=bool))
    differences = shares[first] - shares[second] - 2 * rounding
    p = norm.sf(differences / np.sqrt(variances[first] + variances[second]))
    pairs = np.stack([first, second], 1)[holm_correction(p) <= ALPHA]
    return _close_order(pairs, len(values))


def compute_rank_bounds(better: Bools) -> tuple[Ints, Ints]:
    """Return the best and the worst rank of each model, (models,) each, from [j, k]: j is shown to be above k."""
    return 1 + better.sum(axis=0), len(better) - better.sum(axis=1)


def group_ties(better: Bools, order: Sequence[int]) -> list[str]:
    """Return each model's letters: two models share a letter exactly if neither is shown to be better.

    Letters are found by inserting and absorbing (Piepho 2004), and go from the best to the worst in ``order``.
    """
    groups = [frozenset(order)]
    for j, k in np.argwhere(better):
        split = [
            part for group in groups for part in ([group - {j}, group - {k}] if {j, k} <= group else [group])
        ]
        distinct = list(dict.fromkeys(split))
        groups = [group for group in distinct if not any(group < other for other in distinct)]
    position = {model: index for index, model in enumerate(order)}
    groups.sort(key=lambda group: sorted(position[model] for model in group))
    return [
        "".join(_name_letter(index) for index, group in enumerate(groups) if model in group)
        for model in range(len(better))
    ]


def _name_letter(index: int) -> str:
    """Return a, b … z, a1, b1 …."""
    cycle, letter = divmod(index, len(string.ascii_lowercase))
    return string.ascii_lowercase[letter] + (str(cycle) if cycle else "")


def _close_order(pairs: Ints, count: int) -> Bools:
    """Return the order that follows from pairs (better, worse): if j is above k and k above l, j is above l."""
    better = np.zeros((count, count), bool)
    better[pairs[:, 0], pairs[:, 1]] = True
    for middle in range(count):
        better |= better[:, [middle]] & better[[middle], :]
    return better
