"""Run AFLite: drop the pairs that an ensemble of linear models predicts most reliably, round by round.

This is algorithm 1 of Le Bras et al. (2020) for pairs of captions: the models learn which of two captions is the
true one. Features are differences of bags of words and word pairs, differences of lengths, and the gaps of blind
scorers. The gaps replace the paper's representation from trained models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from caramel.blind.cross_validation import fit_sparse_pair_weights
from caramel.blind.text.linear_probe import extract_words
from caramel.refine.mirrored_grid import UNIT, KeepMask
from caramel.utils.arrays import Floats, Ints
from caramel.utils.hashing import assign_folds, compute_stable_keys

PARTITIONS = 8  # random halvings per round; each halving predicts each pair once
SLICE = 0.05  # largest share of the pairs that a round drops
CHANCE = 0.5  # only pairs that are predicted correctly more often than this are dropped
COST, TOLERANCE = 1.0, 1e-2  # inverse strength of the L2 penalty; tolerance of the solver


@dataclass(frozen=True)
class AFLiteResult:
    """The order in which pairs were dropped, and the predictability of the remaining pairs.

    Attributes:
        rows: number of pairs at the start.
        order: (d,) indices of the dropped pairs, first dropped first.
        left: (r,) number of pairs left at the start of each round.
        predictability: (r,) share of correct predictions on held-out pairs in each round; a tie counts half.
    """

    rows: int
    order: Ints
    left: Ints
    predictability: Floats

    def build_keep_mask(self, level: float) -> KeepMask:
        """Return which pairs were left when predictability first reached ``level``, or else at the end. (n,)."""
        reached = np.flatnonzero(self.predictability <= level)
        left = int(self.left[reached[0]]) if len(reached) else self.rows - len(self.order)
        mask = np.ones(self.rows, dtype=np.bool_)
        mask[self.order[: self.rows - left]] = False
        return mask


def run_aflite(rows: pd.DataFrame, gaps: Ints, *, level: float, least: int, seed: int) -> AFLiteResult:
    """Drop the most predictable pairs until the share of correct predictions is at most ``level``.

    Each round draws half of the images ``PARTITIONS`` times. A logistic regression on either half predicts the
    other half. A pair's predictability is its share of correct predictions. The round drops the most predictable
    pairs, at most the share ``SLICE``. The rounds also stop when ``least`` pairs are left, or when no pair is
    predicted better than by chance.

    The order of the rows does not affect the result.

    Args:
        rows: audit rows of one type.
        gaps: (n, k) gaps of blind scorers, as features; k may be 0.
        level: predictability at which the rounds stop, in [0, 1].
        least: minimum number of pairs to leave.
        seed: seed of the halvings.
    """
    first = np.argsort(rows["pair_id"].to_numpy(dtype=object), kind="stable")
    ordered = rows.iloc[first]
    names, groups = (ordered[c].to_numpy(dtype=object) for c in ("pair_id", "image_id"))
    features = _compute_feature_differences(ordered["caption"], ordered["negative_caption"], gaps[first])
    ties = compute_stable_keys(names.tolist(), seed)
    alive, order = np.arange(len(rows)), [np.empty(0, dtype=np.int64)]
    left: list[int] = []
    predictability: list[float] = []
    while len(alive) > 1:
        right = _compute_predictability(
            features[alive], groups[alive].tolist(), seed + PARTITIONS * len(left)
        )
        left.append(len(alive))
        predictability.append(float(right.mean()))
        quota = min(int(np.ceil(SLICE * len(alive))), len(alive) - least)
        worst = np.lexsort((ties[alive], -right))[: max(0, quota)]
        worst = worst[right[worst] > CHANCE]
        if predictability[-1] <= level or not len(worst):
            break
        order.append(first[alive[worst]])
        alive = np.delete(alive, worst)
    return AFLiteResult(
        len(rows), np.concatenate(order), np.array(left, dtype=np.int64), np.array(predictability)
    )


def _compute_feature_differences(positives: pd.Series[str], negatives: pd.Series[str], gaps: Ints) -> Any:
    """Return the features of the positives minus those of the negatives, sparse. (n, features)."""
    from scipy.sparse import csr_array, hstack
    from sklearn.feature_extraction.text import CountVectorizer

    if not len(gaps):
        return csr_array((0, gaps.shape[1]))
    counts = CountVectorizer(analyzer=extract_words, dtype=np.float64).fit_transform([*positives, *negatives])
    bags = csr_array(counts[: len(gaps)] - counts[len(gaps) :])
    # Scaled to a difference of two words: the penalty would suppress much smaller gaps.
    scale = 2 / np.maximum(np.sqrt((gaps.astype(float) ** 2).mean(axis=0)), 1 / UNIT)
    return csr_array(hstack([bags, csr_array(gaps * scale)]))


def _compute_predictability(features: Any, groups: Sequence[str], seed: int) -> Floats:
    """Return how often models of the other half predict each pair correctly, in [0, 1]. (n,)."""
    right = np.zeros(len(groups))
    for partition in range(PARTITIONS):
        half = assign_folds(groups, folds=2, seed=seed + partition)
        for side in (0, 1):
            weights = fit_sparse_pair_weights(features[half == side], cost=COST, tolerance=TOLERANCE, seed=0)
            lead = features[half != side] @ weights
            right[half != side] += 0.5 + 0.5 * np.sign(lead)
    return right / PARTITIONS
