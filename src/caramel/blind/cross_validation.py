"""Learning on the pairs of the other folds: what learned attackers share, on texts or on images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from caramel.blind.scorers import compute_percentile_ranks, deduplicate_texts
from caramel.utils.arrays import Bools, Floats, Ints
from caramel.utils.hashing import assign_folds, compute_stable_keys

# (pairs to learn from (2, m), items to score (k,)) -> values (k,); all as numbers of items.
Learn = Callable[[Ints, Ints], Floats]


class Fold(NamedTuple):
    """Which rows are judged together, and which are learned from for it. (n,), (n,)."""

    test: Bools
    train: Bools


def group_folds(groups: Sequence[str], *, folds: int, seed: int, taught: Bools | None = None) -> list[Fold]:
    """Return the parts in which rows are judged: no group of a part is learned from for it.

    Args:
        groups: n names; rows of one name are not independent.
        folds: number of folds.
        seed: of the folds.
        taught: (n,) which rows are learned from and not judged, the others the other way round. The groups that are
            judged are dealt into folds, and taught rows of a fold's groups are left out for it; where no group is on
            both sides, all are judged at once. None: all rows are judged, and learned from for the other folds.
    """
    names, number = np.unique(np.array(groups, dtype=str), return_inverse=True)
    judged = np.ones(len(groups), dtype=bool) if taught is None else ~taught
    learned = judged if taught is None else taught
    judged_groups = np.unique(number[judged])
    is_disjoint = taught is not None and not np.isin(number[learned], judged_groups).any()
    fold = np.full(len(names), -1)
    fold[judged_groups] = assign_folds(
        names[judged_groups].tolist(), folds=1 if is_disjoint else folds, seed=seed
    )
    parts = ((fold == k)[number] for k in np.unique(fold[judged_groups]))
    return [Fold(here & judged, learned & ~here) for here in parts]


def score_out_of_fold(
    names: Sequence[str],
    sides: Ints,
    groups: Sequence[str],
    learn: Learn,
    *,
    folds: int,
    seed: int,
    cap: int,
    texts: Ints | None = None,
    taught: Bools | None = None,
) -> tuple[Floats, Floats]:
    """Return scores in [0, 1] of both sides, (n,) and (n,), each learned on the other folds.

    A score is the share of the fold's distinct items of lower value, those of equal value counted half.

    A pair of which either text is to be scored is not learned from, nor is any pair of a group that is to
    be scored. Folds with more than ``cap`` pairs learn from a random part of them. The pairs to learn from
    come in an order that does not depend on that of the rows.

    Args:
        names: of the distinct items: texts, or hashes of images.
        sides: (2, n) numbers of the true and of the false item of each pair.
        groups: n image names; all rows of an image are in one fold.
        learn: learns from pairs and returns values; higher looks truer.
        folds: number of folds.
        seed: of folds and draws.
        cap: pairs to learn from, per fold, at most.
        texts: (items,) number of the text of each item, where several items share one; None: each is its own.
        taught: rows that are learned from and not judged; see ``Scorer``.
    """
    text_sides = sides if texts is None else texts[sides]
    pairs = zip(groups, *sides.tolist(), strict=True)
    keys = compute_stable_keys((f"{group}\n{names[p]}\n{names[n]}" for group, p, n in pairs), seed)
    scores = np.full(sides.shape, 0.5)
    for here, learned in group_folds(groups, folds=folds, seed=seed, taught=taught):
        scored = np.unique(sides[:, here])
        usable = np.flatnonzero(learned & ~np.isin(text_sides, text_sides[:, here]).any(axis=0))
        drawn = usable[np.argsort(keys[usable], kind="stable")[:cap]]
        # In an order of their own, since a solver visits the rows in turn.
        pairs_drawn = sides[:, drawn[np.lexsort((sides[1, drawn], sides[0, drawn]))]]
        scores[:, here] = compute_percentile_ranks(learn(pairs_drawn, scored))[
            np.searchsorted(scored, sides[:, here])
        ]
    return scores[0], scores[1]


@dataclass(frozen=True)
class LearnedScorer:
    """A ``Scorer`` that learns on the other folds which text is the true one; see ``score_out_of_fold``.

    Attributes:
        build_learner: (distinct texts, seed) -> what learns from pairs of them and values them.
        cap: pairs to learn from, per fold, at most.
    """

    build_learner: Callable[[Sequence[str], int], Learn]
    cap: int

    def __call__(
        self,
        positives: Sequence[str],
        negatives: Sequence[str],
        groups: Sequence[str],
        *,
        folds: int,
        seed: int,
        taught: Bools | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the scores in [0, 1] of both sides; errors are those of ``build_learner``."""
        if not len(groups):
            return np.zeros(0), np.zeros(0)
        texts, sides = deduplicate_texts(positives, negatives)
        learn = self.build_learner(texts, seed)
        return score_out_of_fold(
            texts, sides, groups, learn, folds=folds, seed=seed, cap=self.cap, taught=taught
        )


def fit_pair_weights(differences: Floats, *, cost: float, signs: Floats | None = None) -> Floats:
    """Return weights w (d,) with P(the first is the true one) = σ(w·(x₁ − x₂)), by logistic regression.

    Features are brought to a mean square of 1 first, so that the penalty is the same for all. Turning a
    pair round changes nothing: it has the opposite difference and the opposite answer.

    Args:
        differences: (n, d), features of the true item minus those of the false one.
        cost: inverse strength of the L2 penalty.
        signs: (n,) of each row as it is fitted, 1 or −1; None: in turn. All equal ones teach nothing.
    """
    from sklearn.linear_model import LogisticRegression

    scale = np.sqrt((differences**2).mean(axis=0)) if len(differences) else np.zeros(differences.shape[1])
    used = scale > 0
    weights = np.zeros(differences.shape[1])
    signs = build_alternating_signs(len(differences)) if signs is None else signs
    if not used.any() or len(set(signs.tolist())) < 2:
        return weights
    model = LogisticRegression(C=cost, fit_intercept=False, tol=1e-6, max_iter=1000)
    model.fit(differences[:, used] / scale[used] * signs[:, None], signs)
    weights[used] = model.coef_[0] / scale[used]
    return weights


def fit_sparse_pair_weights(differences: Any, *, cost: float, tolerance: float, seed: int) -> Floats:
    """Return weights as ``pair_weights`` does, of many sparse features that are counts: they keep their scale.

    Dual coordinate descent: single-threaded, without a line search that rounding could turn.

    Args:
        differences: (n, d), sparse.
        cost: inverse strength of the L2 penalty.
        tolerance: of the solver.
        seed: of the order in which it visits the rows.
    """
    from sklearn.linear_model import LogisticRegression

    if differences.shape[0] < 2:
        return np.zeros(differences.shape[1])
    signs = build_alternating_signs(differences.shape[0])
    model = LogisticRegression(
        C=cost,
        solver="liblinear",
        dual=True,
        fit_intercept=False,
        tol=tolerance,
        max_iter=1000,
        random_state=seed,
    )
    weights: Floats = model.fit(differences.multiply(signs[:, None]).tocsr(), signs).coef_[0]
    return weights


def build_alternating_signs(rows: int) -> Floats:
    """Return signs by which every other pair is turned round, since a solver wants both classes. (n,)."""
    return np.where(np.arange(rows) % 2, 1.0, -1.0)
