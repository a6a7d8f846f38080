"""What was chosen by its accuracy is judged on rows that had no part in the choice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from caramel.refine import refining, tradeoff

ROWS = 240


def random_rows(seed: int = 0) -> pd.DataFrame:
    """Return rows whose captions and negatives are random words: there is nothing to find."""
    rng = np.random.default_rng(seed)
    texts = [f"A {' '.join(f'w{i}' for i in rng.integers(40, size=6))}." for _ in range(2 * ROWS)]
    names = [f"p{i:03d}" for i in range(ROWS)]
    return pd.DataFrame(
        {
            **{"pair_id": names, "image_id": names, "type": "swap", "subtype": "swap_obj"},
            **{"caption": texts[:ROWS], "caption2": None, "negative_caption": texts[ROWS:]},
        }
    )


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Return which rows the attacker that chooses is shown, and which those that judge are: judged and learned from."""
    seen: dict[str, list[Any]] = {"chosen by": [], "judged": []}

    def choosing(scorers: Any, *, folds: int, seed: int) -> Any:
        def attack(rows: pd.DataFrame) -> tuple[float, float, float]:
            seen["chosen by"].append({*rows["pair_id"]})
            return 0.5, 0.4, 0.6

        return attack

    def judging(rows: pd.DataFrame, scorers: Any, *, source: Any = None, **how: Any) -> Any:
        seen["judged"].append(({*rows["pair_id"]}, {*source.rows["pair_id"]}))
        figures = {"micro": 0.5, "ci_low": 0.4, "ci_high": 0.6}
        return SimpleNamespace(figures={refining.BEST: {"overall": figures}})

    monkeypatch.setattr(tradeoff, "build_attack", choosing)
    monkeypatch.setattr(refining, "run_caption_attack", judging)
    return seen


def test_no_row_by_which_a_candidate_was_chosen_judges_it(shown: dict[str, list[Any]]) -> None:
    settings = refining.build_settings(
        scorers=["length"], attackers=["casing"], target=None, acceptance="not_refuted", rows=None,
        methods=["length", "adversarial"], cells=[1.0, 0.1], within="subtype", folds=3, seed=1,
    )  # fmt: skip
    tried = refining.build_candidate_set(random_rows(), settings, "made-up rows")
    found = refining.take_best(tried, settings)
    judged = refining.evaluate_refinement(tried, found.rows, settings)
    chosen_by = set.union(*shown["chosen by"])
    assert len(shown["chosen by"]) == 4
    assert 0.4 * ROWS < len(chosen_by) < 0.6 * ROWS
    assert list(judged)[:2] == ["new_scorers", "all_scorers"]
    for rows, learned in shown["judged"]:
        assert rows
        assert not rows & chosen_by
        assert not rows & learned
    before, after = (shown["judged"][n][0] for n in (0, 1))
    assert before | chosen_by == {*tried.rows["pair_id"]}
    assert after == before & {*found.rows["pair_id"]}


def test_rows_of_one_image_are_in_one_half() -> None:
    rows = random_rows()
    rows["image_id"] = [f"i{n // 3}" for n in range(ROWS)]
    settings = refining.build_settings(
        scorers=["length"], attackers=["casing"], target=None, acceptance="not_refuted", rows=None,
        methods=["length"], within="subtype", folds=3, seed=1,
    )  # fmt: skip
    tried = refining.build_candidate_set(rows, settings, "made-up rows")
    assert pd.Series(tried.fresh).groupby(tried.rows["image_id"]).nunique().eq(1).all()
