"""Variants of one base, with training seeds, against each other."""

import numpy as np
import pandas as pd
import pytest
from test_summary import BENCHMARK, SIZES, scored, summary

from caramel.errors import DataError
from caramel.evaluation.results.comparison import compare_variants, leaders
from caramel.evaluation.results.other_files import SCORES


def test_differences_are_paired_and_find_a_lift() -> None:
    models = pd.concat([scored("base", 0), scored("v-1", 0, lift=0.5), scored("v-2", 0, lift=0.5)])
    rows = compare_variants(models, BENCHMARK, bootstrap=200, seed=0)
    rows = rows.set_index(["a", "b", "subset", "metric"])
    metrics = summary(models)["value"]
    lift = rows.loc[("v", "base", "all", "accuracy")]
    expected = metrics["v-1", "all", "accuracy"] - metrics["base", "all", "accuracy"]
    assert lift["difference"] == pytest.approx(expected)
    assert 0 < lift["ci_low"] <= lift["difference"] <= lift["ci_high"]
    same = rows.loc[("v", "base", "all", "tot")]
    assert same["difference"] == 0
    assert same["ci_low"] < 0 < same["ci_high"]
    macro = rows.loc[("v", "base", "macro", "accuracy"), "difference"]
    each = [rows.loc[("v", "base", s, "accuracy"), "difference"] for s in SIZES]
    assert macro == pytest.approx(np.mean(each))


def test_differences_pair_instances_by_name_and_not_by_place() -> None:
    base, tuned = scored("base", 0), scored("v", 1)
    ordered = compare_variants(pd.concat([base, tuned]), BENCHMARK, bootstrap=50, seed=0)
    shuffled = pd.concat([base, tuned.sample(frac=1, random_state=0)])
    pd.testing.assert_frame_equal(compare_variants(shuffled, BENCHMARK, bootstrap=50, seed=0), ordered)


def test_models_that_scored_other_instances_are_not_compared() -> None:
    tuned = scored("v", 1)
    tuned.loc[3, "instance_id"] = "elsewhere"
    models = pd.concat([scored("base", 0), tuned])
    with pytest.raises(DataError, match=r"2 instances(.|\n)*'elsewhere'(.|\n)*'i3'"):
        compare_variants(models, BENCHMARK, bootstrap=20, seed=0)


def test_one_variant_has_nothing_to_be_compared_with() -> None:
    assert compare_variants(scored("base", 0), BENCHMARK, bootstrap=20, seed=0).empty


def test_a_variant_that_scored_nothing_is_left_out() -> None:
    silent = scored("w", 2).assign(**dict.fromkeys(SCORES))
    models = pd.concat([scored("base", 0), scored("v", 1), silent])
    found = compare_variants(models, BENCHMARK, bootstrap=20, seed=0)
    assert set(zip(found["a"], found["b"], strict=True)) == {("v", "base")}


def test_every_variant_stands_against_every_other_by_every_metric_uncorrected() -> None:
    models = pd.concat([scored("base", 0), scored("v", 1, lift=0.3), scored("w", 2, lift=0.6)])
    rows = compare_variants(models, BENCHMARK, bootstrap=50, seed=0)
    assert len(rows[["a", "b"]].drop_duplicates()) == 3
    assert "group_match" in set(rows["metric"])
    alone = compare_variants(
        pd.concat([scored("base", 0), scored("w", 2, lift=0.6)]), BENCHMARK, bootstrap=50, seed=0
    )
    of_two = rows[(rows["a"] == "w") & (rows["b"] == "base")].reset_index(drop=True)
    pd.testing.assert_frame_equal(of_two, alone)


def test_the_leader_of_a_column_beats_every_other_after_holm_over_the_table() -> None:
    first, second = ("all", "i2t"), ("all", "t2i")
    values = {first: {"a": 0.9, "b": 0.5, "c": 0.4}, second: {"a": 0.2, "b": 0.5, "c": float("nan")}}
    p = {("a", "b", first): 0.01, ("a", "c", first): 0.012, ("b", "a", second): 0.03}

    def tested(a: str, b: str, place: tuple[str, str]) -> float:
        return p[a, b, place]

    assert leaders(values, tested) == {("a", first), ("b", second)}
    p["a", "c", first] = 0.02  # three tests: 0.01 * 3, 0.02 * 2, 0.03
    assert leaders(values, tested) == {("a", first), ("b", second)}
    p["a", "c", first] = 0.026  # 0.052 after Holm, and all behind it
    assert leaders(values, tested) == set()
    assert leaders({first: {"a": 0.9}}, tested) == set(), "nothing was tested"
