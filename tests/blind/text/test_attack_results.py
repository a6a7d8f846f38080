import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.blind.text import attack_results
from caramel.blind.text.attack_results import compute_attack_metrics, compute_guess_shares
from caramel.utils.stats import GUESS_FLIPS, share_interval, variance_factor


def table(types, subtypes):
    return pd.DataFrame({"type": types, "subtype": subtypes})


def test_figures_are_those_worked_out_by_hand():
    rows = table(["swap"] * 6 + ["add"] * 2, ["swap_obj"] * 4 + ["swap_att"] * 2 + ["add_obj"] * 2)
    gaps = np.array([1, 0.5, 0, -1, 0.1, -0.1, 1, 1])
    found = compute_attack_metrics(rows, {"m": gaps}, np.arange(8), folds=5, seed=0)["m"]
    assert found["overall"]["micro"] == (5 + 0.5) / 8
    assert found["overall"]["strict"] == 5 / 8
    assert found["overall"]["macro"] == pytest.approx((2.5 / 4 + 1 / 2 + 1) / 3, abs=1e-6)
    assert (found["overall"]["n"], found["overall"]["ties"]) == (8, 1)
    assert list(found["by_type"]) == ["swap", "add"]
    assert list(found["by_subtype"]) == ["swap_obj", "swap_att", "add_obj"]
    assert found["by_subtype"]["swap_obj"]["accuracy"] == 2.5 / 4
    assert found["by_type"]["swap"]["accuracy"] == pytest.approx(3.5 / 6, abs=1e-6)


def test_subsets_are_whatever_occurs_in_the_usual_order():
    rows = table(["x", "all", "swap", "x"], ["b", "all", "swap_obj", "a"])
    found = compute_attack_metrics(rows, {"m": np.ones(4)}, np.arange(4), folds=2, seed=0)["m"]
    assert list(found["by_type"]) == ["swap", "all", "x"]
    assert list(found["by_subtype"]) == ["swap_obj", "a", "all", "b"]


def test_intervals_are_widened_for_the_folds_that_learn_from_each_other():
    rng = np.random.default_rng(0)
    gaps, groups = rng.normal(0.3, 1, 300), np.arange(300) // 3
    overall = compute_attack_metrics(table(["t"] * 300, ["t"] * 300), {"m": gaps}, groups, folds=5, seed=0)[
        "m"
    ]["overall"]
    hits, zeros = (gaps > 0).astype(float), np.zeros(300, dtype=np.int64)
    _, low, high = share_interval(hits, zeros, groups, factor=2.25)
    assert (overall["ci_low"], overall["ci_high"]) == pytest.approx((low, high), abs=1e-6)
    _, narrow, _ = share_interval(hits, zeros, groups, factor=1)
    assert low < narrow
    assert variance_factor(5) == 2.25


def test_the_p_value_is_that_of_all_sign_flips_of_groups():
    rng = np.random.default_rng(1)
    gaps, groups = rng.normal(0.4, 1, 24), np.arange(24) // 2
    found = compute_attack_metrics(table(["t"] * 24, ["t"] * 24), {"m": gaps}, groups, folds=5, seed=0)["m"][
        "overall"
    ]
    totals = np.bincount(groups, np.sign(gaps))
    flips = np.array(list(itertools.product([-1, 1], repeat=12))) @ totals
    exact = (np.sqrt(2.25) * flips >= totals.sum() - 1e-9).mean()
    assert 0.02 < exact < 0.5
    assert found["p_value"] == pytest.approx(exact, abs=4 * (exact * (1 - exact) / GUESS_FLIPS) ** 0.5)


def test_what_cannot_tell_has_no_small_p_value_and_what_always_can_has_the_smallest():
    rows, groups = table(["t"] * 40, ["t"] * 40), np.arange(40)
    found = compute_attack_metrics(
        rows, {"ties": np.zeros(40), "right": np.ones(40)}, groups, folds=5, seed=0
    )
    assert found["ties"]["overall"]["p_value"] == 1
    assert found["right"]["overall"]["p_value"] < 0.001


def test_many_groups_are_flipped_in_blocks(monkeypatch):
    rng = np.random.default_rng(2)
    gaps, rows = rng.normal(0.05, 1, 3000), table(["t"] * 3000, ["t"] * 3000)
    one_by_one = compute_attack_metrics(rows, {"m": gaps}, np.arange(3000), folds=5, seed=0)["m"]["overall"][
        "p_value"
    ]
    monkeypatch.setattr(attack_results, "BLOCKS", 200)
    in_blocks = compute_attack_metrics(rows, {"m": gaps}, np.arange(3000), folds=5, seed=0)["m"]["overall"][
        "p_value"
    ]
    assert in_blocks == pytest.approx(one_by_one, abs=0.05)


def test_no_rows_have_no_figures():
    assert (
        compute_attack_metrics(
            table([], []), {"m": np.zeros(0)}, np.zeros(0, dtype=np.int64), folds=5, seed=0
        )
        == {}
    )


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 0, 1])), min_size=1, max_size=20))
def test_of_texts_that_tie_for_the_lowest_one_is_drawn_by_lot(gaps):
    found = compute_guess_shares(np.array(gaps, dtype=float))
    for row, shares in zip(gaps, found, strict=True):
        scores = [*row, 0]
        lowest = [i for i, score in enumerate(scores) if score == min(scores)]
        assert shares.tolist() == [1 / len(lowest) if i in lowest else 0 for i in range(3)]
    pairs = np.array([first for first, _ in gaps], dtype=float)
    assert (compute_guess_shares(pairs)[:, -1] == (1 + np.sign(pairs)) / 2).all()


def test_of_three_texts_the_figures_are_those_worked_out_by_hand():
    gaps = np.array([[1, 2], [0, 1], [0, 0], [-1, 1], [2, -1], [1, 1]], dtype=float)
    found = compute_attack_metrics(table(["t"] * 6, ["t"] * 6), {"m": gaps}, np.arange(6), folds=5, seed=0)[
        "m"
    ]["overall"]
    assert found["micro"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 0 + 0 + 1) / 6, abs=1e-6)
    assert found["strict"] == pytest.approx(2 / 6, abs=1e-6)
    assert (found["n"], found["ties"]) == (6, 2)


def test_the_p_value_of_three_texts_is_that_of_all_draws_of_the_false_one():
    rng = np.random.default_rng(4)
    gaps, groups = rng.normal(1.2, 1, (14, 2)), np.arange(14) // 2
    found = compute_attack_metrics(table(["t"] * 14, ["t"] * 14), {"m": gaps}, groups, folds=None, seed=0)[
        "m"
    ]["overall"]
    lowest = np.argmin(np.hstack([gaps, np.zeros((14, 1))]), axis=1)
    each = np.array([[(lowest[groups == g] == o).sum() for o in range(3)] for g in range(7)])
    draws = np.array(list(itertools.product(range(3), repeat=7)))
    exact = (each[np.arange(7), draws].sum(axis=1) >= (lowest == 2).sum()).mean()
    assert 0.01 < exact < 0.6
    assert found["p_value"] == pytest.approx(exact, abs=4 * (exact * (1 - exact) / GUESS_FLIPS) ** 0.5)


def test_what_is_learned_elsewhere_has_the_interval_of_plain_shares():
    gaps = np.random.default_rng(0).normal(0.3, 1, 300)
    overall = compute_attack_metrics(
        table(["t"] * 300, ["t"] * 300), {"m": gaps}, np.arange(300), folds=None, seed=0
    )["m"]
    _, low, high = share_interval((gaps > 0).astype(float), np.zeros(300, np.int64), np.arange(300), factor=1)
    assert (overall["overall"]["ci_low"], overall["overall"]["ci_high"]) == pytest.approx(
        (low, high), abs=1e-6
    )
