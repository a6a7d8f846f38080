"""Sensitivity and specificity of a validator, and when it is no better than chance."""

from __future__ import annotations

import numpy as np
import pytest

from caramel.interfaces.writer import Part
from caramel.sources.captions.llm.gold_items import GoldItem
from caramel.sources.captions.llm.validator_quality import (
    MIN_ITEMS,
    build_gold_table,
    compute_quality,
    find_chance_problem,
)

ITEMS = [GoldItem(f"caption {i}", f"text {i}", "copy", same=i % 2 == 0) for i in range(40)]
PARTS: tuple[Part, ...] = ("negatives", "paraphrases")


def answer(part: Part, right: float, seed: int = 1) -> list[bool | None]:
    """Return the answers of a validator that is right with a probability."""
    rng = np.random.default_rng(seed)
    return [(item.same == (part == "paraphrases")) == (rng.random() < right) for item in ITEMS]


@pytest.mark.parametrize("part", PARTS)
def test_a_good_validator_has_both_shares_of_one(part: Part) -> None:
    rows = build_gold_table(part, ITEMS, answer(part, 1.0))
    (quality,) = compute_quality(rows).to_dict("records")
    assert (quality["sensitivity"], quality["specificity"]) == (1.0, 1.0)
    assert (quality["faulty"], quality["sound"], quality["unanswered"]) == (20, 20, 0)
    assert quality["sensitivity_low"] == pytest.approx(0.839, abs=1e-3)  # Wilson: 20 of 20
    assert find_chance_problem(rows) is None


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("accepts", [True, False])
def test_a_constant_validator_is_no_better_than_chance(part: Part, accepts: bool) -> None:
    rows = build_gold_table(part, ITEMS, [accepts] * len(ITEMS))
    (quality,) = compute_quality(rows).to_dict("records")
    assert quality["p"] == 1.0
    number = 20 if accepts else 0
    message = f"it accepts {number} of 20 that are sound and {number} of 20 that are not"
    assert message in str(find_chance_problem(rows))


def test_a_noisy_validator_passes_and_a_wrong_one_does_not() -> None:
    passes = [
        find_chance_problem(build_gold_table("negatives", ITEMS, answer("negatives", right, seed))) is None
        for right in (0.85, 0.15)
        for seed in range(20)
    ]
    assert sum(passes[:20]) >= 19
    assert not any(passes[20:])


def test_coins_pass_at_most_as_often_as_the_level_says() -> None:
    passes = [
        find_chance_problem(build_gold_table("negatives", ITEMS, answer("negatives", 0.5, seed))) is None
        for seed in range(300)
    ]
    assert sum(passes) <= 0.08 * 300


def test_few_answers_and_none_judge_nobody() -> None:
    few = build_gold_table("negatives", ITEMS[: 2 * MIN_ITEMS - 2], [True] * (2 * MIN_ITEMS - 2))
    assert find_chance_problem(few) is None
    rows = build_gold_table("negatives", ITEMS, [None] * len(ITEMS))
    assert find_chance_problem(rows) is None
    (quality,) = compute_quality(rows).to_dict("records")
    assert quality["unanswered"] == 40
    assert np.isnan(quality["sensitivity"])
    assert find_chance_problem(build_gold_table("negatives", [], [])) is None
