"""Train attackers on the pairs of the other folds and score the held-out fold, for texts or images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from caramel.blind.scorers import compute_percentile_ranks, deduplicate_texts
from caramel.runtime.progress_log import iter_with_progress
from caramel.utils.arrays import Bools, Floats, Ints
from caramel.utils.hashing import assign_folds, compute_stable_keys
from caramel.utils.resampling import CrossValidation

# (pairs to train on (2, m), items to score (k,)) -> values (k,). Pairs and items are indices of items.
Learn = Callable[[Ints, Ints], Floats]


class Fold(NamedTuple):
    """Masks of the rows that are tested together and of the rows that attackers train on for them. (n,), (n,)."""

    test: Bools
    train: Bools


def group_folds(cv: CrossValidation) -> list[Fold]:
    """Return the folds. No group of a fold's test rows is among its training rows.

    If there are train-only rows, the groups of the other rows are assigned to folds, and each fold leaves out
    the train-only rows of its groups. If no group has rows of both kinds, all rows are tested in one fold.
    """
    names, number = np.unique(np.array(cv.groups, dtype=str), return_inverse=True)
    judged = np.ones(len(cv.groups), dtype=bool) if cv.train_only is None else ~cv.train_only
    learned = judged if cv.train_only is None else cv.train_only
    judged_groups = np.unique(number[judged])
    is_disjoint = cv.train_only is not None and not np.isin(number[learned], judged_groups).any()
    fold = np.full(len(names), -1)
    fold[judged_groups] = assign_folds(
        names[judged_groups].tolist(), folds=1 if is_disjoint else cv.folds, seed=cv.seed
    )
    parts = ((fold == k)[number] for k in np.unique(fold[judged_groups]))
    return [Fold(here & judged, learned & ~here) for here in parts]


def score_out_of_fold(
    names: Sequence[str],
    sides: Ints,
    cv: CrossValidation,
    learn: Learn,
    *,
    cap: int,
    texts: Ints | None = None,
    title: str = "folds",
) -> tuple[Floats, Floats]:
    """Return scores in [0, 1] of both sides, (n,) and (n,), from training on the other folds.

    A score is the share of the fold's distinct items that have a lower value; items of equal value count
    half.

    A pair is not trained on if either of its texts is scored in the fold, or if its group is scored in the
    fold. With more than ``cap`` training pairs, a fold trains on a random sample of them. The order of the
    training pairs does not depend on the order of the rows.

    Args:
        names: names of the distinct items: texts, or hashes of images.
        sides: (2, n) indices of the true and of the false item of each pair.
        cv: folds, grouped by image.
        learn: trains on pairs and returns values; a higher value means more likely true.
        cap: maximum number of training pairs per fold.
        texts: (items,) index of the text of each item, if several items share a text. None: each item is its
            own text.
        title: what is trained, in lines of progress.
    """
    text_sides = sides if texts is None else texts[sides]
    pairs = zip(cv.groups, *sides.tolist(), strict=True)
    pair_names = (f"{group}\n{names[p]}\n{names[n]}" for group, p, n in pairs)
    # The keys only choose a sample, where there are too many pairs.
    keys = compute_stable_keys(pair_names, cv.seed) if len(cv.groups) > cap else np.zeros(len(cv.groups))
    scores = np.full(sides.shape, 0.5)
    for here, learned in iter_with_progress(group_folds(cv), title=title, unit="fold"):
        scored = np.unique(sides[:, here])
        usable = np.flatnonzero(learned & ~np.isin(text_sides, text_sides[:, here]).any(axis=0))
        drawn = usable[np.argsort(keys[usable], kind="stable")[:cap]]
        # Sorted, because the result of a solver depends on the order of the rows.
        pairs_drawn = sides[:, drawn[np.lexsort((sides[1, drawn], sides[0, drawn]))]]
        scores[:, here] = compute_percentile_ranks(learn(pairs_drawn, scored))[
            np.searchsorted(scored, sides[:, here])
        ]
    return scores[0], scores[1]


@dataclass(frozen=True)
class LearnedScorer:
    """A ``Scorer`` that trains on the other folds to tell which text is true; see ``score_out_of_fold``.

    Attributes:
        build_learner: (distinct texts, seed) -> ``Learn`` function over these texts.
        cap: maximum number of training pairs per fold.
        title: what is trained, in lines of progress.
    """

    build_learner: Callable[[Sequence[str], int], Learn]
    cap: int
    title: str = "folds"

    def __call__(
        self,
        positives: Sequence[str],
        negatives: Sequence[str],
        cv: CrossValidation,
    ) -> tuple[Floats, Floats]:
        """Return the scores in [0, 1] of both sides. Errors are those of ``build_learner``."""
        if not len(cv.groups):
            return np.zeros(0), np.zeros(0)
        texts, sides = deduplicate_texts(positives, negatives)
        learn = self.build_learner(texts, cv.seed)
        return score_out_of_fold(texts, sides, cv, learn, cap=self.cap, title=self.title)


def fit_pair_weights(differences: Floats, *, cost: float, signs: Floats | None = None) -> Floats:
    """Return weights w (d,) with P(the first item is true) = σ(w·(x₁ − x₂)), by logistic regression.

    Features are first scaled to a mean square of 1, so that the penalty is the same for all. Swapping the
    items of a pair does not change the fit, because it negates both the difference and the label.

    Args:
        differences: (n, d), features of the true item minus features of the false item.
        cost: inverse strength of the L2 penalty.
        signs: (n,) sign by which each row is multiplied for the fit, 1 or −1. None: alternating. If all are
            equal, the weights are 0.
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
    """Return weights as ``fit_pair_weights`` does, for many sparse features that are counts, without scaling them.

    The solver is dual coordinate descent. It is single-threaded and has no line search that depends on
    rounding.

    Args:
        differences: (n, d), sparse.
        cost: inverse strength of the L2 penalty.
        tolerance: tolerance of the solver.
        seed: random seed for the order in which the solver visits the rows.
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
    """Return signs that swap every other pair, because the solver needs both classes. (n,)."""
    return np.where(np.arange(rows) % 2, 1.0, -1.0)
