import math

import numpy as np
import pandas as pd
import pytest

from caramel.benchmarks.metrics import Outcomes, compute_outcomes
from caramel.benchmarks.readers import instances
from caramel.evaluation.results import summary as summary_module
from caramel.evaluation.results.summary import parse_variant, summarise_similarities, summarise_variants
from caramel.interfaces.benchmark import Benchmark
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import METRICS, SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import compute_cluster_totals

SIZES = {"replace_obj": 30, "swap_att": 12, "add_obj": 18}
SUBTYPES = np.array([subtype for subtype, n in SIZES.items() for _ in range(n)])
COLUMNS = [
    "s_c0_i0",
    "s_c1_i0",
    "s_c2_i0",
    "s_c0_i1",
    "s_c1_i1",
    "t_p1_p2",
    "t_p1_n",
    "t_p2_n",
]
BENCHMARK = instances.BENCHMARK
METRIC_NAMES = list(BENCHMARK.metrics)


def subsets(subtype: str) -> list[str]:
    kind = subtype.split("_")[0]
    return [*([] if kind == "add" else ["without_add"]), kind, subtype]


def scored(model: str, seed: int, lift: float = 0.0) -> pd.DataFrame:
    """Return random similarities of 60 instances, three to an image; ``lift`` is added to s_c0_i0."""
    values = np.random.default_rng(seed).random((60, len(COLUMNS)))
    rows = pd.DataFrame(values, columns=COLUMNS).assign(
        instance_id=[f"i{n}" for n in range(60)],
        model=model,
        benchmark="b",
        image_id=[f"image{n % 20}" for n in range(60)],
        subsets=[subsets(subtype) for subtype in SUBTYPES],
    )
    return build_frame(SIMILARITIES, rows.assign(s_c0_i0=rows["s_c0_i0"] + lift))


def ranked(seed: int) -> pd.DataFrame:
    """Return random ranks of 60 queries."""
    rng = np.random.default_rng(seed)
    ranks = {"n_above": rng.integers(0, 6, 60).astype(float), "n_tied": rng.integers(0, 3, 60).astype(float)}
    return scored("m", seed).assign(**dict.fromkeys(COLUMNS, np.nan), **ranks, candidates=10.0)


def summary(similarities: pd.DataFrame, benchmark: Benchmark = BENCHMARK) -> pd.DataFrame:
    rows = summarise_similarities(similarities, {"b": benchmark}, bootstrap=Bootstrap(100, 0))
    check_table(METRICS, rows, "test")
    return rows.set_index(["model", "subset", "metric"])


def test_each_subset_is_the_mean_over_its_own_instances() -> None:
    rows = scored("m", 1)
    found, hits = summary(rows), compute_outcomes(rows, METRIC_NAMES).hits
    for metric in BENCHMARK.metrics:
        each = {s: hits[metric][s == SUBTYPES].mean() for s in SIZES}
        for subset, value in each.items():
            assert found.loc[("m", subset, metric), "value"] == pytest.approx(value)
            assert found.loc[("m", subset, metric), "n"] == SIZES[subset]
        assert found.loc[("m", "all", metric), "value"] == pytest.approx(hits[metric].mean())
        assert found.loc[("m", "macro", metric), "value"] == pytest.approx(np.mean(list(each.values())))
        without = hits[metric][SUBTYPES != "add_obj"]
        assert found.loc[("m", "without_add", metric), "value"] == pytest.approx(without.mean())
        assert found.loc[("m", "without_add", metric), "n"] == 42


def test_intervals_hold_their_value() -> None:
    found = summary(scored("m", 2))
    assert (found["ci_low"] <= found["value"]).all()
    assert (found["value"] <= found["ci_high"]).all()


def test_an_instance_of_no_subset_counts_in_all_alone() -> None:
    rows = scored("m", 3)
    rows["subsets"] = [[]] * 59 + [["lonely"]]
    found = summary(rows)
    assert found.loc[("m", "all", "accuracy"), "n"] == 60
    assert found.loc[("m", "lonely", "accuracy"), "n"] == 1
    assert set(found.index.get_level_values("subset")) == {"all", "lonely"}


def test_the_order_of_rows_and_further_models_change_nothing() -> None:
    rows = scored("m", 3)
    shuffled = pd.concat([rows, scored("other", 4).sample(frac=1, random_state=0)])
    pd.testing.assert_frame_equal(summary(rows).loc[["m"]], summary(shuffled).loc[["m"]])


def test_each_benchmark_is_judged_by_its_own_metrics_and_macro() -> None:
    plain = Benchmark("c", "", BENCHMARK.load_rows, ("itt",), "")
    both = pd.concat([scored("m", 5), scored("m", 6).assign(benchmark="c")])
    rows = summarise_similarities(both, {"b": BENCHMARK, "c": plain}, bootstrap=Bootstrap(20, 0))
    theirs = rows[rows["benchmark"] == "c"]
    assert set(theirs["metric"]) == {"itt"}
    assert "macro" not in set(theirs["subset"])
    alone = summarise_similarities(scored("m", 5), {"b": BENCHMARK}, bootstrap=Bootstrap(20, 0))
    pd.testing.assert_frame_equal(rows[rows["benchmark"] == "b"].reset_index(drop=True), alone)


def test_what_no_instance_has_is_unscored_and_not_zero() -> None:
    rows = scored("m", 5).assign(s_c2_i0=np.nan, t_p1_p2=np.nan)
    found = summary(rows)
    assert found.loc[("m", "all", "itt"), "n"] == 0
    assert found.loc[("m", "all", "itt"), "unscored"] == 60
    assert np.isnan(found.loc[("m", "all", "itt"), "value"])
    assert np.isnan(found.loc[("m", "macro", "tot"), "value"])


def test_macro_is_over_the_subtypes_that_were_scored() -> None:
    rows = scored("m", 6)
    rows.loc[SUBTYPES == "add_obj", ["s_c0_i1", "s_c1_i1"]] = np.nan
    found = summary(rows)
    value = found["value"]["m"]
    expected = (value["replace_obj", "group"] + value["swap_att", "group"]) / 2
    assert value["macro", "group"] == pytest.approx(expected)
    assert found.loc[("m", "macro", "group"), "n"] == 42
    assert found.loc[("m", "macro", "group"), "unscored"] == 18


def test_ties_are_counted() -> None:
    rows = scored("m", 7)
    rows.loc[:9, "s_c1_i0"] = rows.loc[:9, "s_c0_i0"]
    assert summary(rows).loc[("m", "all", "accuracy"), "ties"] == 10
    assert summary(rows).loc[("m", "all", "tot"), "ties"] == 0


def test_recalls_are_means_of_shares() -> None:
    rows = ranked(8)
    rows.loc[:4, "n_above"] = np.nan
    benchmark = Benchmark("b", "", BENCHMARK.load_rows, ("recall@3", "avg_recall"), "")
    found = summary(rows, benchmark)
    each = [
        [a + e < k for k in (1, 3)]
        for a, e in zip(rows["n_above"], rows["n_tied"], strict=True)
        if not math.isnan(a)
    ]
    assert found.loc[("m", "all", "recall@3"), "value"] == pytest.approx(np.mean([hit[1] for hit in each]))
    assert found.loc[("m", "all", "avg_recall"), "value"] == pytest.approx(np.mean(each))
    assert found.loc[("m", "all", "avg_recall"), "unscored"] == 5


def test_nothing_scored_is_an_empty_table() -> None:
    assert summary(scored("m", 9).iloc[:0]).empty


def test_seeds_are_gathered_by_variant() -> None:
    assert parse_variant("trohn_text-11") == "trohn_text"
    assert parse_variant("base") == "base"
    models = pd.concat([scored("base", 0), scored("v-1", 1), scored("v-2", 2)])
    metrics = summary(models)
    rows = summarise_variants(metrics.reset_index()).set_index(["variant", "subset", "metric"])
    one, two = (metrics.loc[(m, "all", "group"), "value"] for m in ("v-1", "v-2"))
    assert rows.loc[("v", "all", "group"), "mean"] == pytest.approx((one + two) / 2)
    assert rows.loc[("v", "all", "group"), "seeds"] == 2
    assert rows.loc[("base", "all", "group"), "seeds"] == 1
    assert np.isnan(rows.loc[("base", "all", "group"), "sd"])


def test_metrics_are_the_same_to_the_last_bit_however_few_subsets_are_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"image_id": rng.integers(0, 40, 300).astype(str)})
    rows["subsets"] = [[f"s{k}", f"t{k % 3}"] for k in rng.integers(0, 9, 300)]
    hits = pd.DataFrame(rng.random((300, 4)), columns=list("abcd")).mask(rng.random((300, 4)) < 0.1)
    outcomes = Outcomes(hits, hits > 0.9)
    tables = []
    for cells, expanded_columns in ((10**9, 52), (300 * 4 * 2, 8), (1, 4)):
        widths: list[int] = []
        monkeypatch.setattr(summary_module, "_MOST_CELLS", cells)
        monkeypatch.setattr(
            summary_module,
            "compute_cluster_totals",
            lambda v, c, widths=widths: widths.append(v.shape[1]) or compute_cluster_totals(v, c),
        )
        tables.append(
            summary_module.compute_metrics(rows, outcomes, lambda name: name[0] == "s", Bootstrap(50, 1))
        )
        assert max(widths) == expanded_columns
        assert sum(widths) == 13 * 4
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0], check_exact=True)
