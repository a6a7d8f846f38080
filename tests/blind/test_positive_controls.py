"""Every blind scorer finds what was planted for it, so that what it does not find says something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import small_language_models as small
from teaching import TEACHERS

from caramel.blind.positive_control import MARK, PLANTED, compute_positive_control
from caramel.blind.scorer_specs import list_scorers, load_scorer
from caramel.utils.resampling import CrossValidation
from caramel.utils.stats import share_interval, variance_factor

ROWS, FOLDS = 120, 3
FOLDERS = {
    "vera": small.vera_folder,
    "cola": small.cola_folder,
    "causal_lm": small.gpt2_folder,
    "masked_lm": small.masked_folder,
}
SCORERS = tuple(found.name for found in list_scorers() if found.missing is None)


def captions(seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"A {' '.join(f'word{chr(97 + i)}' for i in rng.integers(20, size=5))}." for _ in range(ROWS)]


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return pairs, and negatives of two types that nothing tells from them."""
    names = [f"n{n}" for n in range(ROWS)]
    pairs = pd.DataFrame({"pair_id": names, "image_id": names, "caption": captions(1)})
    kinds = ["swap", "replace"] * (ROWS // 2)
    negatives = {
        "negative_id": names,
        "pair_id": names,
        "type": kinds,
        "subtype": kinds,
        "negative_caption": captions(2),
    }
    return pairs, pd.DataFrame(negatives)


def test_the_control_is_of_so_many_rows_at_most_of_all_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("caramel.blind.positive_control.ROWS", 30)
    pairs, negatives = tables()
    found = compute_positive_control(pairs, negatives, scorers=["length", "probe"], folds=FOLDS, seed=3)
    assert {name: list(figures) for name, figures in found.items()} == {
        "length": [PLANTED],
        "probe": [PLANTED],
    }
    assert all(figures[PLANTED]["n"] == 30 and figures[PLANTED]["ci_low"] > 0.5 for figures in found.values())
    assert not negatives["negative_caption"].str.endswith(MARK).any()


def told(name: str, positives: list[str], negatives: list[str]) -> tuple[float, float, float]:
    """Return how often a scorer's score of the true caption is the higher one, and the interval."""
    true, false = load_scorer(name, both=True)(
        positives, negatives, CrossValidation([f"i{n}" for n in range(ROWS)], FOLDS, 3)
    )
    row = np.arange(ROWS)
    return share_interval(
        (1 + np.sign(true - false)) / 2, np.zeros_like(row), row, factor=variance_factor(FOLDS)
    )


@pytest.mark.parametrize("name", SCORERS)
def test_what_was_planted_is_found(name: str) -> None:
    assert told(name, captions(1), [text.rstrip(".") + MARK for text in captions(2)])[1] > 0.5


@pytest.mark.parametrize("name", SCORERS)
def test_where_nothing_was_planted_nothing_is_found(name: str) -> None:
    _, low, high = told(name, captions(1), captions(2))
    assert low <= 0.5 <= high


def sentences(seed: int) -> list[str]:
    """Return sentences such as ``a red dog under the big car``."""
    rng = np.random.default_rng(seed)
    kinds = (["red", "blue", "big", "small"], ["dog", "cat", "car", "ball"], ["on", "under"])

    def one() -> str:
        first, second, place = (str(rng.choice(kinds[n])) for n in (0, 0, 2))
        things = rng.choice(kinds[1], 2)
        return f"a {first} {things[0]} {place} the {second} {things[1]}"

    return [one() for _ in range(ROWS)]


def with_end(texts: list[str]) -> list[str]:
    return [f"{text} and holds two purple men" for text in texts]


@pytest.mark.parametrize("kind", TEACHERS)
def test_a_language_model_that_was_taught_an_kind_of_text_finds_another(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = FOLDERS[kind](tmp_path / "model")
    TEACHERS[kind](folder, sentences(1), with_end(sentences(1)))
    texts = sentences(2)
    assert told(f"{kind}:{folder}", texts, with_end(texts))[1] > 0.8
    _, low, high = told(f"{kind}:{folder}", texts, sentences(3))
    assert low <= 0.5 <= high
