"""The points of a search space are all combinations of its lists, and reproducible draws from its distributions."""

from __future__ import annotations

import math
from typing import Any

import pytest

from caramel.config.search_space import MOST, draw_points, merge_point


def test_lists_give_all_their_combinations_and_later_keys_change_first() -> None:
    space = {"lr": [0.1, 0.2], "betas": [[0.9, 0.98], [0.9, 0.999]]}
    found = draw_points(space, None, seed=1, name="a")
    assert [(p["lr"], p["betas"][1]) for p in found] == [(0.1, 0.98), (0.1, 0.999), (0.2, 0.98), (0.2, 0.999)]


def test_draws_are_within_their_ends_and_spread_as_their_distribution_says() -> None:
    space = {"lr": {"loguniform": [1e-6, 1e-2]}, "ema_decay": {"uniform": [0, 0.5]}}
    found = draw_points(space, 2000, seed=3, name="a")
    assert all(1e-6 <= p["lr"] <= 1e-2 and 0 <= p["ema_decay"] <= 0.5 for p in found)
    for values, middle in (
        ([math.log10(p["lr"]) for p in found], -4),
        ([p["ema_decay"] for p in found], 0.25),
    ):
        assert sum(value < middle for value in values) / len(values) == pytest.approx(0.5, abs=0.05)
    assert all(p["lr"] == float(f"{p['lr']:.4g}") for p in found)


def test_ends_may_be_as_far_apart_as_numbers_are() -> None:
    found = draw_points({"lr": {"loguniform": [1e-299, 1e299]}}, 200, seed=3, name="a")
    below = sum(p["lr"] < 1 for p in found) / len(found)
    assert below == pytest.approx(0.5, abs=0.1)
    assert len(draw_points({"a": [1, True, 0.5]}, None, seed=3, name="a")) == 3


def test_what_is_drawn_depends_on_seed_variant_and_key_alone() -> None:
    space: dict[str, Any] = {"lr": {"uniform": [0, 1]}}
    found = draw_points(space, 5, seed=3, name="a")
    assert draw_points(space, 5, seed=3, name="a") == found
    assert draw_points(space, 5, seed=4, name="a") != found
    assert draw_points(space, 5, seed=3, name="b") != found
    more = draw_points(
        {"ema_decay": {"uniform": [0, 1]}, **space, "batch_size": [8, 16]}, 5, seed=3, name="a"
    )
    assert [p["lr"] for p in more[:5]] == [p["lr"] for p in found]
    assert more[0]["ema_decay"] != more[0]["lr"]


def test_a_point_that_is_drawn_twice_is_tried_once() -> None:
    found = draw_points({"batch_size": {"choice": [8, 16]}}, 50, seed=3, name="a")
    assert sorted(p["batch_size"] for p in found) == [8, 16]


@pytest.mark.parametrize(
    ("space", "draws", "said"),
    [
        ({"lr": []}, None, r"lr = \[\]: the list is empty"),
        ({"lr": {"choice": []}}, 2, "the list is empty"),
        ({"lr": {"choice": 3}}, 2, "the list is empty or missing"),
        ({"lr": 0.1}, None, "lr = 0.1: a list of values, or one of uniform, loguniform, choice"),
        ({"lr": {"normal": [0, 1]}}, 2, "one of uniform, loguniform, choice"),
        ({"lr": {"uniform": [0, 1], "choice": [1]}}, 2, "one of uniform"),
        ({"lr": {"uniform": [1, 0]}}, 2, "two numbers, the lower one first"),
        ({"lr": {"uniform": [0, 1, 2]}}, 2, "two numbers"),
        ({"lr": {"uniform": [0, True]}}, 2, "two numbers"),
        ({"lr": {"uniform": [0, 10**400]}}, 2, "two numbers"),
        ({"lr": {"loguniform": [0, 1]}}, 2, "numbers above 0"),
        ({"lr": [1, 2, 1]}, None, "duplicate value"),
        ({"betas": {"choice": [[1, 0.5], [1.0, 0.5]]}}, 2, "duplicate value"),
        ({"lr": {"uniform": [0, 1]}}, None, "lr is drawn, but draws = None"),
        ({"lr": {"uniform": [0, 1]}}, MOST + 1, "the space has 10,001 points"),
        ({name: [*range(100)] for name in "abc"}, None, "the space has 1,000,000 points"),
    ],
)
def test_what_is_no_space_is_refused_with_the_key_and_the_value(
    space: dict[str, Any], draws: int | None, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        draw_points(space, draws, seed=1, name="a")


def test_a_point_takes_the_places_of_a_variants_own_settings_and_of_parts_of_them() -> None:
    common = {"lr": 0.3, "lora": {"rank": 4, "alpha": 4.0}}
    own = {"weights": {"imc": 0.2}, "lr": 0.2, "steps": 9}
    point = {"lr": 0.1, "lora.rank": 2, "weights.cmr": 0.5}
    assert merge_point(own, point, common) == {
        "weights": {"imc": 0.2, "cmr": 0.5}, "lr": 0.1, "steps": 9, "lora": {"rank": 2, "alpha": 4.0},
    }  # fmt: skip
    assert own["weights"] == {"imc": 0.2}
    with pytest.raises(ValueError, match=r"lr.a: lr has no parts"):
        merge_point({}, {"lr.a": 1}, common)
