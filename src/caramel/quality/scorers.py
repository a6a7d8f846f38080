"""Blind scorers by simple surface rules: length, final punctuation, casing.

A rule measures one property of a text. Whether more of it looks true is learned: on each fold,
the direction is the one that is right more often on the other folds. So a rule is a fair attacker
whichever side an artefact favours, and never uses the rows that it is judged on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from caramel.quality.blind import DECIMALS, Floats, assign_folds


def length(
    positives: Sequence[str], negatives: Sequence[str], groups: Sequence[str], *, folds: int, seed: int
) -> tuple[Floats, Floats]:
    """Score texts by their length in characters; see ``blind.Scorer``."""
    return _oriented(_shortness, positives, negatives, groups, folds, seed)


def final_punctuation(
    positives: Sequence[str], negatives: Sequence[str], groups: Sequence[str], *, folds: int, seed: int
) -> tuple[Floats, Floats]:
    """Score texts by whether they end with a stop, an exclamation mark or neither; see ``blind.Scorer``."""
    return _oriented(_open_end, positives, negatives, groups, folds, seed)


def casing(
    positives: Sequence[str], negatives: Sequence[str], groups: Sequence[str], *, folds: int, seed: int
) -> tuple[Floats, Floats]:
    """Score texts by their capital letters beyond, or lacking at, the start; see ``blind.Scorer``."""
    return _oriented(_odd_casing, positives, negatives, groups, folds, seed)


def _shortness(text: str) -> float:
    return 1 / (1 + len(text.strip()) / 100)


def _open_end(text: str) -> float:
    end = text.rstrip()[-1:]
    return 0.0 if end == "." else 0.5 if end in ("!", "?") else 1.0


def _odd_casing(text: str) -> float:
    """Return k / (1 + k) for k capital letters that are not at the start, or a small one that is."""
    start = text.lstrip()
    odd = sum(sign.isupper() for sign in start[1:]) + start[:1].islower()
    return odd / (1 + odd)


def _oriented(
    rule: Callable[[str], float],
    positives: Sequence[str],
    negatives: Sequence[str],
    groups: Sequence[str],
    folds: int,
    seed: int,
) -> tuple[Floats, Floats]:
    """Return the rule's scores, turned round (s to 1 − s) on folds where the others say so."""
    sides = np.array([[rule(text) for text in side] for side in (positives, negatives)]).round(DECIMALS)
    fold = assign_folds(groups, folds=folds, seed=seed)
    lead = np.sign(sides[0] - sides[1])
    against = np.array([lead[fold != k].sum() < 0 for k in range(folds)])
    sides = np.where(against[fold], 1 - sides, sides).round(DECIMALS)
    return sides[0], sides[1]
