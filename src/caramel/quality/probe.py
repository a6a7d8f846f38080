"""Blind scorer ``probe``: a learned attacker that is shown which caption is the true one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from caramel.quality.blind import Floats, Ints, assign_folds, places, share_below, stable_keys, tokens

CAP = 20_000  # pairs to learn from, per fold; more make it slower and hardly stronger
COST = 1.0  # inverse strength of the L2 penalty
TOLERANCE = 1e-3


def probe(
    positives: Sequence[str], negatives: Sequence[str], groups: Sequence[str], *, folds: int, seed: int
) -> tuple[Floats, Floats]:
    """Score texts by logistic regression on words, pairs of words and length; see ``blind.Scorer``.

    It is learned on the pairs of the other folds: P(the first is the true one) = σ(w·x₁ − w·x₂), so
    that words which both captions share cancel out. w·x orders the texts of a fold; a score is the
    share of the fold's distinct texts that have less, those that have as much counted half.

    A pair of which either text is to be scored is not learned from, nor is any pair of an image
    that is to be scored. Folds with more than ``CAP`` pairs learn from a random part of them.
    """
    texts, sides = places(positives, negatives)
    features = _features(texts)
    fold = assign_folds(groups, folds=folds, seed=seed)
    keys = stable_keys([f"{g}\n{p}\n{n}" for p, n, g in zip(positives, negatives, groups, strict=True)], seed)
    scores = np.empty(sides.shape)
    for k in np.unique(fold):
        here = fold == k
        scored = np.unique(sides[:, here])
        usable = np.flatnonzero(~here & ~np.isin(sides, scored).any(axis=0))
        drawn = usable[np.argsort(keys[usable], kind="stable")[:CAP]]
        # In an order of their own, since the solver visits the rows in turn.
        learned = drawn[np.lexsort((sides[1, drawn], sides[0, drawn]))]
        weights = _learn(features, sides[:, learned], seed)
        scores[:, here] = share_below(features[scored] @ weights)[np.searchsorted(scored, sides[:, here])]
    return scores[0], scores[1]


def _features(texts: Sequence[str]) -> Any:
    """Return the counts of words, pairs of neighbours and the length of each text. (texts, features)."""
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(analyzer=_terms, dtype=np.float64).fit_transform(texts)


def _terms(text: str) -> list[str]:
    words = ["<s>", *tokens(text), "</s>"]
    return [*words, *(f"{a} {b}" for a, b in itertools.pairwise(words)), f"length {len(words)}"]


def _learn(features: Any, sides: Ints, seed: int) -> Floats:
    """Return the weights (features,) that tell the first of two texts from the second. sides: (2, n).

    Dual coordinate descent: single-threaded, without a line search that rounding could turn.
    """
    from sklearn.linear_model import LogisticRegression

    if sides.shape[1] < 2:
        return np.zeros(features.shape[1])
    signs = np.where(np.arange(sides.shape[1]) % 2, 1.0, -1.0)  # the solver wants both classes
    differences = (features[sides[0]] - features[sides[1]]).multiply(signs[:, None]).tocsr()
    model = LogisticRegression(
        C=COST,
        solver="liblinear",
        dual=True,
        fit_intercept=False,
        tol=TOLERANCE,
        max_iter=1000,
        random_state=seed,
    )
    weights: Floats = model.fit(differences, signs).coef_[0]
    return weights
