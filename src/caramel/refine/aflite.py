"""AFLite: pairs that an ensemble of linear models predicts most reliably are dropped, round by round.

Le Bras et al. (2020), algorithm 1, for pairs of captions: the models learn which of two captions is the true
one. Their features are differences of bags of words and word pairs, of lengths, and, as the representation
from trained models that the paper takes, the gaps of blind scorers.
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

PARTITIONS = 8  # random halvings per round; each pair is predicted once in each
SLICE = 0.05  # share of the pairs that a round drops at most
CHANCE = 0.5  # only pairs that are predicted rightly more often than this are dropped
COST, TOLERANCE = 1.0, 1e-2  # inverse strength of the L2 penalty; of the solver


@dataclass(frozen=True)
class AFLiteResult:
    """In which order pairs were dropped, and how predictable those were that were left.

    Attributes:
        rows: number of pairs at the start.
        order: (d,) places of the dropped pairs, first dropped first.
        left: (r,) pairs left at the start of each round.
        predictability: (r,) share of right predictions of held-out pairs in each round, ties counted half.
    """

    rows: int
    order: Ints
    left: Ints
    predictability: Floats

    def build_keep_mask(self, level: float) -> KeepMask:
        """Return which pairs were left when predictability was first at most ``level``; else in the end. (n,)."""
        reached = np.flatnonzero(self.predictability <= level)
        left = int(self.left[reached[0]]) if len(reached) else self.rows - len(self.order)
        mask = np.ones(self.rows, dtype=np.bool_)
        mask[self.order[: self.rows - left]] = False
        return mask


def run_aflite(rows: pd.DataFrame, gaps: Ints, *, level: float, least: int, seed: int) -> AFLiteResult:
    """Drop the most predictable pairs until they are predicted at a share of at most ``level``.

    In each round ``PARTITIONS`` times half of the images is drawn; a logistic regression of either half
    predicts the other. A pair's predictability is the share of right predictions. The most predictable
    pairs, ``SLICE`` of them at most, are dropped. It ends also when ``least`` pairs are left or none
    is predicted better than by chance.

    Args:
        rows: audit rows of one type.
        gaps: (n, k) gaps of blind scorers, as features; k may be 0.
        level: predictability that is low enough, in [0, 1].
        least: pairs to leave.
        seed: of the halvings.

    The order of the rows changes nothing.
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
    """Return the features of the positives less those of the negatives, sparse. (n, features)."""
    from scipy.sparse import csr_array, hstack
    from sklearn.feature_extraction.text import CountVectorizer

    if not len(gaps):
        return csr_array((0, gaps.shape[1]))
    counts = CountVectorizer(analyzer=extract_words, dtype=np.float64).fit_transform([*positives, *negatives])
    bags = csr_array(counts[: len(gaps)] - counts[len(gaps) :])
    # On the scale of a difference of two words: far smaller gaps would be held down by the penalty.
    scale = 2 / np.maximum(np.sqrt((gaps.astype(float) ** 2).mean(axis=0)), 1 / UNIT)
    return csr_array(hstack([bags, csr_array(gaps * scale)]))


def _compute_predictability(features: Any, groups: Sequence[str], seed: int) -> Floats:
    """Return how often each pair is predicted rightly by models of the other half, in [0, 1]. (n,)."""
    right = np.zeros(len(groups))
    for partition in range(PARTITIONS):
        half = assign_folds(groups, folds=2, seed=seed + partition)
        for side in (0, 1):
            weights = fit_sparse_pair_weights(features[half == side], cost=COST, tolerance=TOLERANCE, seed=0)
            lead = features[half != side] @ weights
            right[half != side] += 0.5 + 0.5 * np.sign(lead)
    return right / PARTITIONS
