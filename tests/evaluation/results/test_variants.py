"""Variants of one base, with training seeds, against each other."""

import time
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from test_summary import BENCHMARK, SIZES, scored, summary

from caramel.errors import DataError
from caramel.evaluation.external.rows import SCORES
from caramel.evaluation.results.comparison import compare_forms, compare_variants, find_leaders
from caramel.evaluation.results.run_hits import RunHits, compute_run_hits
from caramel.utils import stats
from caramel.utils.arrays import Floats
from caramel.utils.resampling import Bootstrap


def runs_of(similarities: pd.DataFrame) -> RunHits:
    return compute_run_hits(similarities, str(similarities["benchmark"].iloc[0]), BENCHMARK.metrics)


def compare(similarities: pd.DataFrame, resamples: int = 50) -> pd.DataFrame:
    return compare_variants(runs_of(similarities), BENCHMARK, bootstrap=Bootstrap(resamples, 0))


def test_differences_are_paired_and_find_a_lift() -> None:
    models = pd.concat([scored("base", 0), scored("v-1", 0, lift=0.5), scored("v-2", 0, lift=0.5)])
    rows = compare(models, 200)
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
    ordered = compare(pd.concat([base, tuned]))
    shuffled = pd.concat([base, tuned.sample(frac=1, random_state=0)])
    pd.testing.assert_frame_equal(compare(shuffled), ordered)


def test_models_that_scored_other_instances_are_not_compared() -> None:
    tuned = scored("v", 1)
    tuned.loc[3, "instance_id"] = "elsewhere"
    models = pd.concat([scored("base", 0), tuned])
    with pytest.raises(DataError, match=r"only one of the models scored: 2(.|\n)*'elsewhere'(.|\n)*'i3'"):
        compare(models)


def test_one_variant_has_nothing_to_be_compared_with() -> None:
    assert compare(scored("base", 0)).empty


def test_a_variant_that_scored_nothing_is_left_out() -> None:
    silent = scored("w", 2).assign(**dict.fromkeys(SCORES))
    models = pd.concat([scored("base", 0), scored("v", 1), silent])
    found = compare(models)
    assert set(zip(found["a"], found["b"], strict=True)) == {("v", "base")}


def test_every_variant_stands_against_every_other_by_every_metric_uncorrected() -> None:
    models = pd.concat([scored("base", 0), scored("v", 1, lift=0.3), scored("w", 2, lift=0.6)])
    rows = compare(models)
    assert len(rows[["a", "b"]].drop_duplicates()) == 3
    assert "group_match" in set(rows["metric"])
    alone = compare(pd.concat([scored("base", 0), scored("w", 2, lift=0.6)]))
    of_two = rows[(rows["a"] == "w") & (rows["b"] == "base")].reset_index(drop=True)
    pd.testing.assert_frame_equal(of_two, alone)


def other_form(similarities: pd.DataFrame, lift: float) -> pd.DataFrame:
    """Return the same instances in another form, in another order, in which models named v have more right."""
    runs = similarities.assign(benchmark="other").groupby("model", sort=False)
    moved = pd.concat([rows.sample(frac=1, random_state=1) for _, rows in runs])
    tuned = moved["model"].str.startswith("v").to_numpy()
    moved.loc[tuned, "s_c0_i0"] += lift
    return moved


def test_the_interaction_of_form_and_training_is_the_difference_of_the_two_differences() -> None:
    drawn = pd.concat([scored("base", 0), scored("v-1", 1), scored("v-2", 2)])
    source = other_form(drawn, lift=0.4)
    one, other = runs_of(drawn), runs_of(source)
    found = compare_forms(one, other, BENCHMARK, bootstrap=Bootstrap(100, 0)).set_index(["subset", "metric"])
    first, second = (compare(rows).set_index(["subset", "metric"])["difference"] for rows in (drawn, source))
    pd.testing.assert_series_equal(found["difference"].sort_index(), (first - second).sort_index())
    assert found["difference"]["all", "accuracy"] < 0
    assert set(found["benchmark"]) == {f"{one.benchmark} − other"}
    assert (found["ci_low"] <= found["difference"]).all()


def test_forms_that_are_equal_do_not_interact() -> None:
    drawn = pd.concat([scored("base", 0), scored("v-1", 1), scored("v-2", 2)])
    found = compare_forms(
        runs_of(drawn), runs_of(other_form(drawn, lift=0.0)), BENCHMARK, bootstrap=Bootstrap(50, 0)
    )
    assert (found["difference"] == 0).all()
    assert (found["p"] == 1).all()


def test_forms_of_other_instances_or_models_are_no_forms_of_one_benchmark() -> None:
    drawn = pd.concat([scored("base", 0), scored("v", 1)])
    fewer = drawn[drawn["instance_id"] != drawn["instance_id"].iloc[0]]
    for other in (fewer, scored("base", 0)):
        with pytest.raises(DataError, match="different instances or models"):
            compare_forms(runs_of(drawn), runs_of(other), BENCHMARK, bootstrap=Bootstrap(20, 0))


def test_the_leader_of_a_column_beats_every_other_after_holm_over_the_table() -> None:
    first, second = ("all", "i2t"), ("all", "t2i")
    values = {first: {"a": 0.9, "b": 0.5, "c": 0.4}, second: {"a": 0.2, "b": 0.5, "c": float("nan")}}
    p = {("a", "b", first): 0.01, ("a", "c", first): 0.012, ("b", "a", second): 0.03}

    def tested(a: str, b: str, place: tuple[str, str]) -> float:
        return p[a, b, place]

    assert find_leaders(values, tested) == {("a", first), ("b", second)}
    p["a", "c", first] = 0.02  # three tests: 0.01 * 3, 0.02 * 2, 0.03
    assert find_leaders(values, tested) == {("a", first), ("b", second)}
    p["a", "c", first] = 0.026  # 0.052 after Holm, and all behind it
    assert find_leaders(values, tested) == set()
    assert find_leaders({first: {"a": 0.9}}, tested) == set(), "nothing was tested"


def test_pairs_compared_in_threads_have_the_rows_of_pairs_compared_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = pd.concat([scored(name, seed, lift=seed / 10) for seed, name in enumerate("abcdef")])
    draws: list[int] = []
    draw = stats._iter_bootstrap_weights

    def count_draw(count: int, resamples: int, seed: int) -> Iterator[Floats]:
        draws.append(count)
        time.sleep(0.05)  # until the other threads want the same weights
        return draw(count, resamples, seed)

    monkeypatch.setattr(stats, "_iter_bootstrap_weights", count_draw)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    stats._draw_bootstrap_weights.cache_clear()
    threaded = compare(models)
    assert len(draws) == len(set(draws)), "threads share the samples"
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    pd.testing.assert_frame_equal(compare(models), threaded)
    assert len(threaded["a"].unique()) == 5
