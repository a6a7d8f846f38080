"""Every blind attacker that needs no model finds a shortcut that was planted for all of them."""

from __future__ import annotations

import numpy as np
import pytest

from caramel.blind.scorer_specs import all_scorers, scorer
from caramel.statistics import share_interval, variance_factor

ROWS, FOLDS = 120, 3
ATTACKERS = tuple(found.name for found in all_scorers() if found.missing is None)


def rows(seed: int, *, marked: bool) -> tuple[list[str], list[str], list[str]]:
    """Return captions, negatives and images: of random words, those of the negatives with every mark that a rule knows."""
    rng = np.random.default_rng(seed)

    def text() -> str:
        return f"A {' '.join(f'word{chr(97 + i)}' for i in rng.integers(20, size=5))}."

    mark = " and Quokka of 7 Zebras"
    negatives = [f"{text()[:-1]}{mark}" if marked else text() for _ in range(ROWS)]
    return [text() for _ in range(ROWS)], negatives, [f"i{n}" for n in range(ROWS)]


def accuracy(name: str, *, marked: bool) -> tuple[float, float, float]:
    """Return how often an attacker's score of the true caption is the higher one, and the interval."""
    true, false = scorer(name, both=True)(*rows(1, marked=marked), folds=FOLDS, seed=3)
    hits = (1 + np.sign(true - false)) / 2
    row = np.arange(ROWS)
    return share_interval(hits, np.zeros_like(row), row, factor=variance_factor(FOLDS))


@pytest.mark.parametrize("name", ATTACKERS)
def test_what_was_planted_is_found_and_what_was_not_is_not(name: str) -> None:
    assert accuracy(name, marked=True)[1] > 0.5
    _, low, high = accuracy(name, marked=False)
    assert low <= 0.5 <= high
