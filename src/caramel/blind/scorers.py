"""Helpers that blind text scorers share: deduplicate texts, and check and scale scores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from caramel.errors import BackendError
from caramel.interfaces.scorer import Scorer
from caramel.utils.arrays import Floats, Ints
from caramel.utils.resampling import CrossValidation

DECIMALS = 6  # scores are rounded, so that differences in the last bits between processors change no table
# (indices of rows, folds of these rows) -> scores of both sides
ScoreRows = Callable[[Ints, CrossValidation], tuple[Floats, Floats]]


@dataclass(frozen=True)
class TextScorer:
    """A ``Scorer`` that reads texts once and then scores any of their rows.

    Nested cross-validation scores the same rows many times.

    Attributes:
        bind_texts: (positives, negatives) -> function that scores some of these rows. The scores are those of a
            call with these rows alone, to the last bit.
    """

    bind_texts: Callable[[Sequence[Any], Sequence[Any]], ScoreRows]

    def __call__(
        self,
        positives: Sequence[Any],
        negatives: Sequence[Any],
        cv: CrossValidation,
    ) -> tuple[Floats, Floats]:
        """Return the scores in [0, 1] of both sides."""
        return self.bind_texts(positives, negatives)(np.arange(len(positives)), cv)


def check_scorer(name: str, scorer: Scorer) -> Scorer:
    """Return the scorer with a check: it raises a BackendError if a score is not a number in [0, 1]."""

    @functools.wraps(scorer)
    def score_checked(
        positives: Sequence[str], negatives: Sequence[str], cv: CrossValidation, **corpus: Any
    ) -> tuple[Floats, Floats]:
        scores: Any = scorer(positives, negatives, cv, **corpus)
        if not isinstance(scores, tuple) or len(scores) != 2:
            raise BackendError(f"Scorer {name!r} returns {scores!r:.80}, not the scores of both sides.")
        return _check_range(name, positives, scores[0]), _check_range(name, negatives, scores[1])

    return score_checked


def _check_range(name: str, texts: Sequence[str], given: Any) -> Floats:
    """Return the scores of the texts, (n,), after checking each.

    Raises:
        BackendError: a score is not a number in [0, 1], or the numbers of scores and texts differ.
    """
    try:
        scores = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BackendError(f"Scorer {name!r} gives {given!r:.80}, not numbers: {error}.") from error
    if scores.shape != (len(texts),):
        raise BackendError(f"Scorer {name!r} gives scores of shape {scores.shape} for {len(texts)} texts.")
    wrong = np.flatnonzero(~((scores >= 0) & (scores <= 1)))
    if len(wrong):
        raise BackendError(
            f"Scorer {name!r} gives {scores[wrong[0]]} for the text {texts[wrong[0]]!r}. Its scores of {len(wrong)} of "
            f"{len(texts)} texts are not numbers in [0, 1]. Fix the scorer (`Scorer` in "
            f"src/caramel/interfaces/scorer.py says what it returns), or leave it out."
        )
    return scores


def deduplicate_texts(positives: Sequence[str], negatives: Sequence[str]) -> tuple[list[str], Ints]:
    """Return the distinct texts, sorted, and the index of each side's texts among them. (2, n)."""
    number, uniques = pd.factorize(np.array([*positives, *negatives], dtype=object))
    different = uniques.tolist()
    order = sorted(range(len(different)), key=different.__getitem__)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return [different[i] for i in order], rank[number].reshape(2, -1)


def compute_percentile_ranks(values: Floats) -> Floats:
    """Return for each value the share of values below it; equal values count half. (n,) -> (n,), in (0, 1).

    This maps any score to [0, 1], evenly spread and in the same order. Values are rounded first.
    """
    values = np.round(values, DECIMALS)
    ordered = np.sort(values)
    twice = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    shares: Floats = np.round(twice / (2 * len(values)), DECIMALS)
    return shares
