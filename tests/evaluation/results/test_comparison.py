import math
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from scripts import load_script

from caramel.benchmarks.metrics import compute_outcomes
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import DataError
from caramel.evaluation.results.comparison import COMPARISON_COLUMNS, compare_models
from caramel.evaluation.results.paired_tests import ALPHA
from caramel.interfaces.benchmark import Benchmark
from caramel.report.terminal import format_comparison
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import FLIPS, holm_correction

SIMULATION = Path(__file__).parents[3] / "bench" / "intervals.py"
BENCHMARK = Benchmark(
    name="b",
    layout="",
    reader=lambda data, images: build_comparisons([], []),
    metrics=("accuracy", "itt"),
    confirmed="",
    macro=lambda name: name in ("x", "y"),
)


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    return load_script(SIMULATION, "simulated_intervals")


def scored(model: str, seed: int, lift: float = 0.0, n: int = 120, each: int = 3) -> pd.DataFrame:
    """Return random scores of n instances, ``each`` of them to an image, in subsets x (a third) and y."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(rng.normal(size=(n, 3)), columns=["s_c0_i0", "s_c1_i0", "s_c2_i0"])
    return build_frame(
        SIMILARITIES,
        rows.assign(
            s_c0_i0=rows["s_c0_i0"] + lift,
            instance_id=[f"i{i}" for i in range(n)],
            image_id=[f"image{i // each}" for i in range(n)],
            subsets=[["x"] if i % 3 == 0 else ["y", "z"] for i in range(n)],
            model=model,
            benchmark="b",
        ),
    )


def compared(a: list[pd.DataFrame], b: list[pd.DataFrame]) -> pd.DataFrame:
    found = compare_models(a, b, {"b": BENCHMARK}, bootstrap=Bootstrap(300, 0))
    assert list(found.columns) == list(COMPARISON_COLUMNS)
    return found.set_index(["subset", "metric"])


def test_values_and_counts_are_those_of_the_definitions() -> None:
    a, b = scored("a", 1, lift=0.5), scored("b", 2)
    b.loc[5, "s_c1_i0"] = np.nan  # not scored by b: counts for neither
    found = compared([a], [b])
    both = [i for i in range(120) if i != 5]
    subsets = {"all": both, "x": [i for i in both if i % 3 == 0], "y": [i for i in both if i % 3]}
    for metric in BENCHMARK.metrics:
        left, right = (compute_outcomes(rows, (metric,)).hits[metric].to_numpy() for rows in (a, b))
        for subset, places in subsets.items():
            row = found.loc[(subset, metric)]
            won = sum(left[i] > right[i] for i in places)
            lost = sum(left[i] < right[i] for i in places)
            assert (row["a_only"], row["b_only"], row["n"]) == (won, lost, len(places))
            assert row["value_a"] == pytest.approx(left[places].mean())
            assert row["difference"] == pytest.approx(left[places].mean() - right[places].mean())
            assert row["effect"] == pytest.approx(won / (won + lost) - 0.5)
            assert row["ci_low"] < row["difference"] < row["ci_high"]
        macro = found.loc[("macro", metric)]
        each = [found.loc[(s, metric), "difference"] for s in ("x", "y")]
        assert macro["difference"] == pytest.approx(np.mean(each))
        assert macro["a_only"] == found.loc[("all", metric), "a_only"]


def test_with_an_image_to_each_instance_it_is_the_exact_test_of_mcnemar() -> None:
    a, b = scored("a", 1, n=24, each=1), scored("b", 2, n=24, each=1)
    found = compared([a], [b])
    for row in found[found.index.get_level_values("subset") != "macro"].itertuples():
        discordant = int(row.a_only + row.b_only)
        assert discordant <= 13
        assert row.p == pytest.approx(binomtest(int(row.a_only), discordant).pvalue if discordant else 1)


def test_the_same_instance_several_times_on_an_image_is_no_further_evidence() -> None:
    a, b = scored("a", 1, lift=1, n=40, each=1), scored("b", 2, n=40, each=1)
    once = compared([a], [b])
    four = [
        pd.concat([rows.assign(instance_id=rows["instance_id"] + f"-{i}") for i in range(4)])
        for rows in (a, b)
    ]
    again = compared([four[0]], [four[1]])
    for column in ("difference", "p", "ci_low", "ci_high", "effect"):
        assert again[column].to_numpy() == pytest.approx(once[column].to_numpy(), abs=1e-9), column


def test_a_model_against_itself_is_no_difference_and_no_certainty() -> None:
    found = compared([scored("a", 1)], [scored("b", 1)])
    assert (found["difference"] == 0).all()
    assert (found["p"] == 1).all()
    assert found["effect"].isna().all()
    assert not found["significant"].any()
    assert ((found["ci_low"] < 0) & (found["ci_high"] > 0) & (found["detectable"] > 0)).all()


def test_the_sides_are_mirror_images() -> None:
    a, b = scored("a", 1, lift=0.6), scored("b", 2)
    one, other = compared([a], [b]), compared([b], [a])
    assert one["difference"].to_numpy() == pytest.approx(-other["difference"].to_numpy())
    assert one["ci_low"].to_numpy() == pytest.approx(-other["ci_high"].to_numpy())
    assert one["effect"].to_numpy() == pytest.approx(-other["effect"].to_numpy())
    assert one["p"].tolist() == other["p"].tolist()


def test_the_order_of_rows_changes_no_value() -> None:
    a, b = scored("a", 1, lift=0.6), scored("b", 2)
    found = compared([a], [b.sample(frac=1, random_state=0)])
    pd.testing.assert_frame_equal(found, compared([a], [b]))


def test_a_large_lift_is_significant_everywhere_and_holm_costs_something() -> None:
    found = compared([scored("a", 1, lift=3)], [scored("b", 2)])
    assert found["significant"].loc[(slice(None), "accuracy")].all()
    assert (found["p_holm"] >= found["p"]).all()
    assert (found["p_holm"] > found["p"]).any()
    assert (found["detectable"] < found["difference"])["all", "accuracy"]


def test_what_differs_clearly_outlives_the_correction_however_many_rows_there_are() -> None:
    sides = [scored("a", 1, lift=9), scored("b", 2, lift=-9)]
    names = [f"subset {k}" for k in range(260)]
    for side in sides:
        side["subsets"] = [names] * len(side)
    found = compare_models(*([side] for side in sides), {"b": BENCHMARK}, bootstrap=Bootstrap(20, 0))
    assert len(found) > FLIPS * ALPHA, "no p that this many flips give would be left"
    assert found["significant"].loc[found["metric"] == "accuracy"].all()
    assert found["p_least"].unique() == [found["p"].min()], "with more flips, p can be below 1 / (FLIPS + 1)"
    assert found["p"].min() < 1 / (FLIPS + 1)
    assert f"≤ {math.ceil(1e4 * found['p_holm'].min()) / 1e4:.4f}" in format_comparison(found, "a", "b")


def test_group_match_is_one_more_claim_of_the_family_and_changes_no_other_difference() -> None:
    names = ["s_c0_i0", "s_c1_i0", "s_c0_i1", "s_c1_i1"]
    sides = [scored("a", 1), scored("b", 2)]
    for seed, side in enumerate(sides):
        side[names] = np.random.default_rng(seed).normal([0.6 * seed, 0, 0, 0], 1, (len(side), 4))
    plain, more = (
        replace(BENCHMARK, metrics=metrics) for metrics in (("i2t", "group"), ("i2t", "group", "group_match"))
    )
    without, found = (
        compare_models([sides[0]], [sides[1]], {"b": benchmark}, bootstrap=Bootstrap(300, 0))
        for benchmark in (plain, more)
    )
    rows = found["metric"] == "group_match"
    columns = ["subset", "metric", "value_a", "difference", "ci_low", "ci_high"]
    pd.testing.assert_frame_equal(found.loc[~rows, columns].reset_index(drop=True), without[columns])
    assert rows.sum() == len(without) / 2
    np.testing.assert_array_equal(found["p_holm"], holm_correction(found["p"].to_numpy()))
    assert (
        found["value_a"][rows].to_numpy() >= found["value_a"][found["metric"] == "group"].to_numpy()
    ).all()


def test_the_luck_of_training_is_no_significant_difference() -> None:
    lucky = [scored("a-1", 1, lift=4), scored("a-2", 2, lift=-1), scored("a-3", 3, lift=2)]
    base = [scored("b", 4)]
    assert compared(lucky[:1], base).loc[("all", "accuracy"), "significant"]
    found = compared(lucky, base).loc[("all", "accuracy")]
    assert found["p"] > 0.2
    assert (found["seeds_a"], found["seeds_b"]) == (3, 1)
    assert found["ci_low"] < 0 < found["ci_high"]


def test_steady_seeds_stay_significant() -> None:
    steady = [scored(f"a-{i}", i, lift=3) for i in range(3)]
    found = compared(steady, [scored(f"b-{i}", 10 + i) for i in range(3)])
    assert found.loc[("all", "accuracy"), "significant"]


def test_fewer_disagreements_can_show_smaller_differences() -> None:
    b = scored("b", 2, n=900)
    near, far = b.copy(), scored("a", 3, n=900)
    near.loc[:20, "s_c0_i0"] += 3
    alike = compared([near.assign(model="a")], [b]).loc[("all", "accuracy"), "detectable"]
    assert alike < 0.5 * compared([far], [b]).loc[("all", "accuracy"), "detectable"]


def test_one_image_says_nothing() -> None:
    found = compared([scored("a", 1, n=6, each=6)], [scored("b", 2, n=6, each=6)])
    assert found[["ci_low", "ci_high", "detectable"]].isna().all(axis=None)
    assert not found["significant"].any()


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (scored("a", 1, n=100), "only one of the models scored: "),
        (scored("a", 1).assign(benchmark="other"), "no benchmark in common"),
        (pd.concat([scored("a", 1), scored("c", 1)]), "FOLDER::MODEL"),
    ],
)
def test_what_cannot_be_compared_is_an_error(a: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        compared([a], [scored("b", 2)])


def test_instances_of_two_releases_are_not_compared_though_their_ids_are_the_same() -> None:
    a, b = scored("a", 1), scored("b", 2)
    for other in (b.assign(image_id=b["image_id"].iloc[::-1].tolist()), b.assign(subsets=[["z"]] * len(b))):
        with pytest.raises(
            DataError, match=r"(?s)the same id but different images or subsets: .*Score both models"
        ):
            compared([a], [other])
    turned = b.assign(subsets=[[*names, "w"] for names in b["subsets"]])
    again = a.assign(subsets=[["w", *names] for names in a["subsets"]])
    assert len(compared([again], [turned])), "the order of the subsets is no difference"


def test_metrics_that_no_instance_has_are_left_out() -> None:
    a, b = scored("a", 1), scored("b", 2).assign(s_c2_i0=None)
    found = compared([a], [b])
    assert set(found.index.get_level_values("metric")) == {"accuracy"}
    assert found["difference"].notna().all()
    with pytest.raises(DataError, match="No instance was scored by all runs on any metric of benchmark b"):
        compared([a], [b.assign(s_c0_i0=None)])
    sides = [
        pd.concat([rows, rows.assign(benchmark="c", s_c0_i0=None)], ignore_index=True) for rows in (a, b)
    ]
    two = compare_models(sides[:1], sides[1:], dict.fromkeys("bc", BENCHMARK), bootstrap=Bootstrap(300, 0))
    assert set(two["benchmark"]) == {"b"}


def test_simulated_intervals_hold_the_truth_as_often_as_they_say(simulation: ModuleType) -> None:
    rng = np.random.default_rng(0)
    for count, p, correlation in ((100, 0.95, 0.3), (100, 0.5, 0.0), (300, 0.1, 0.8)):
        result = simulation.measure_coverage(rng, count, 8, p, correlation, 1000)
        assert not result.missed, str(result)


def test_simulated_models_that_are_alike_are_rarely_told_apart(simulation: ModuleType) -> None:
    rng = np.random.default_rng(0)
    results = [
        *simulation.measure_equal_models(rng, 100, 0.8, 0.3, 500),
        *simulation.measure_sparse_models(rng, 100, 0.02, True, 500),
        *simulation.measure_seeded_models(rng, 100, (3, 3), 0.05, 500),
    ]
    for result in results:
        assert not result.missed, str(result)


def test_of_simulated_comparisons_of_equal_models_few_claim_anything(simulation: ModuleType) -> None:
    result = simulation.measure_familywise_error(np.random.default_rng(0), 20)
    assert not result.missed, str(result)
