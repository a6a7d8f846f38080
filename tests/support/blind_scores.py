"""Blind scorers asked of columns of texts and groups."""

from typing import Any

from caramel.utils.resampling import CrossValidation


def score_columns(
    scorer: Any,
    positives: Any,
    negatives: Any,
    groups: Any,
    *,
    folds: int,
    seed: int,
    train_only: Any = None,
    **corpus: Any,
) -> Any:
    """Return the scores of both sides by a scorer in folds of the groups."""
    return scorer(positives, negatives, CrossValidation(groups, folds, seed, train_only), **corpus)
