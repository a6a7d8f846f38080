"""Compute how often attackers find the negative, with intervals and p-values that account for cross-validation.

A row's guess is right, wrong or a tie. Tied texts share the guess equally, so chance is one half for two
texts and a third for three.

The folds of a cross-validation are not independent: each row is trained on when other rows are tested, and
the other way round. So variances are multiplied by ``stats.variance_factor``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from caramel.blind.blind_accuracy import order_names
from caramel.blind.scorers import DECIMALS
from caramel.schemas.columns import SUBTYPES, TYPES
from caramel.utils.arrays import Floats, Ints
from caramel.utils.stats import above_chance_p_value, share_interval, variance_factor

# Up to this number, groups are flipped one by one. More groups are flipped in this many random blocks.
BLOCKS = 10_000

# overall: {micro, ci_low, ci_high, p_value, macro, macro_ci_low, macro_ci_high, macro_p_value, strict, n, ties};
# by_type, by_subtype: name -> {accuracy, ci_low, ci_high, p_value, strict, n, ties}.
Figures = dict[str, Any]


def compute_attack_metrics(
    rows: pd.DataFrame, gaps: Mapping[str, Floats], groups: Ints, *, folds: int | None, seed: int
) -> dict[str, Figures]:
    """Return the figures of each scorer, overall and by type and subtype.

    - ``micro``: accuracy over all rows.
    - ``macro``: mean of the accuracies of the subtypes.
    - ``accuracy``: accuracy on a subset.
    - ``strict``: (micro) accuracy with ties counted as misses.
    - ``ci_low``, ``ci_high``: 95 % interval, clustered by group.
    - ``p_value``: one-sided. Each random draw makes another text of whole groups the negative. The p-value is
      the share of draws that are as far above chance.

    Args:
        rows: columns type and subtype.
        gaps: scorer -> (n,), the true caption's score minus the negative's; or (n, t) for t true captions.
        groups: (n,) index of each row's group, in [0, m).
        folds: number of cross-validation folds. None: the attackers trained on none of the rows.
        seed: random seed for the draws.
    """
    if rows.empty:
        return {}
    subsets = _list_subsets(rows)
    factor = 1.0 if folds is None else variance_factor(folds)
    taken = np.stack([compute_guess_shares(of_scorer) for of_scorer in gaps.values()], axis=1)
    weights = np.stack([_compute_row_weights(stratum) for _, stratum in subsets], axis=1)
    p = _compute_p_values(taken, weights, groups, factor, seed)
    return {
        name: _nest_metrics(
            [
                (
                    subset,
                    _compute_subset_metrics(taken[:, i, -1], stratum, groups, factor)
                    | {"p_value": float(p[i, j])},
                )
                for j, (subset, stratum) in enumerate(subsets)
            ]
        )
        for i, name in enumerate(gaps)
    }


def compute_guess_shares(gaps: Floats) -> Floats:
    """Return the share of the guess that each text gets as the negative. (n, t + 1).

    The guess is the text with the lowest score; tied texts share it equally.

    Args:
        gaps: (n,) or (n, t), how far each of t true captions scores above the negative. The negative is the
            last text.
    """
    scores = np.hstack([gaps.reshape(len(gaps), -1), np.zeros((len(gaps), 1))])
    lowest = scores == scores.min(axis=1, keepdims=True)
    return np.asarray(lowest / lowest.sum(axis=1, keepdims=True))


def _list_subsets(rows: pd.DataFrame) -> list[tuple[tuple[str, str], Ints]]:
    """Return each subset's path in the figures, and the stratum of each row; −1 outside the subset."""
    subtype = np.unique(rows["subtype"].to_numpy(dtype=str), return_inverse=True)[1].astype(np.int64)
    subsets = [(("overall", "micro"), np.zeros_like(subtype)), (("overall", "macro"), subtype)]
    for section, column, usual in (("by_type", "type", TYPES), ("by_subtype", "subtype", SUBTYPES)):
        for name in order_names(rows[column].unique(), usual):
            subsets.append(((section, name), np.where(rows[column] == name, 0, -1)))
    return subsets


def _compute_row_weights(stratum: Ints) -> Floats:
    """Return the weight of each row in the mean of the strata's means; 0 outside the subset. (n,)."""
    inside = stratum >= 0
    sizes = np.bincount(stratum[inside])
    weights = np.zeros(len(stratum))
    weights[inside] = 1 / (sizes[stratum[inside]] * len(sizes))
    return weights


def _compute_subset_metrics(
    hits: Floats, stratum: Ints, groups: Ints, factor: float
) -> dict[str, float | int]:
    """Return the figures of one subset, except its p-value."""
    inside = stratum >= 0
    hits, stratum = hits[inside], stratum[inside]
    group = np.unique(groups[inside], return_inverse=True)[1]
    accuracy, low, high = share_interval(hits, stratum, group, factor=factor)
    strict = float((np.bincount(stratum, hits == 1) / np.bincount(stratum)).mean())
    shares = {"accuracy": accuracy, "ci_low": low, "ci_high": high, "strict": strict}
    rounded = {name: round(share, DECIMALS) for name, share in shares.items()}
    return {**rounded, "n": len(hits), "ties": int(((hits > 0) & (hits < 1)).sum())}


def _nest_metrics(subset_metrics: Sequence[tuple[tuple[str, str], dict[str, float | int]]]) -> Figures:
    """Return the figures of one scorer as a nested dict; ``overall`` merges micro and macro."""
    parts = dict(subset_metrics)
    micro, macro = parts.pop(("overall", "micro")), parts.pop(("overall", "macro"))
    overall = {"micro": micro.pop("accuracy"), **micro, "macro": macro["accuracy"]}
    overall |= {f"macro_{key}": macro[key] for key in ("ci_low", "ci_high", "p_value")}
    nested: Figures = {"overall": overall, "by_type": {}, "by_subtype": {}}
    for (section, name), figure in parts.items():
        nested[section][name] = figure
    return nested


def _compute_p_values(taken: Floats, weights: Floats, groups: Ints, factor: float, seed: int) -> Floats:
    """Return one-sided p-values from random draws of the negative, one draw per group. (n, a, o), (n, s) -> (a, s).

    Under the null hypothesis, a scorer picks each of the o texts of a group's rows with equal probability.
    """
    rng = np.random.default_rng(seed)
    count = int(groups.max()) + 1
    if count > BLOCKS:
        groups = rng.integers(BLOCKS, size=count)[groups]
        count = BLOCKS
    attackers, options = taken.shape[1:]
    totals = np.zeros((count, options, attackers, weights.shape[1]))
    for i, o in np.ndindex(attackers, options):
        for j, weight in enumerate(weights.T):
            beyond = (taken[:, i, o] - 1 / options) * weight
            totals[:, o, i, j] = np.bincount(groups, beyond, minlength=count)
    p = above_chance_p_value(totals.reshape(count, options, -1), rng, factor=factor)
    return p.reshape(attackers, -1)
