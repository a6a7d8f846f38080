import numpy as np
import pandas as pd
import pytest

from caramel import tables
from caramel.errors import DataError
from caramel.evaluation.metrics import METRICS, outcomes
from caramel.evaluation.summary import compare_variants, summarise, summarise_variants, variant_of

SIZES = {"replace_obj": 30, "swap_att": 12, "add_obj": 18}
COLUMNS = [c for c in tables.SIMILARITIES.columns if c not in tables.SIMILARITIES.key]


def benchmark() -> pd.DataFrame:
    """Return 60 instances, three to an image."""
    subtypes = [s for s, n in SIZES.items() for _ in range(n)]
    rows = [
        {
            "instance_id": f"i{n}",
            "image_id": f"image{n % 20}",
            "caption": "c",
            "caption2": "p",
            "negative_caption": "n",
            "negative_image_id": "m",
            "type": subtype.split("_")[0],
            "subtype": subtype,
            "split": "test",
        }
        for n, subtype in enumerate(subtypes)
    ]
    return tables.frame(tables.INSTANCES, rows)


def scored(model: str, seed: int, lift: float = 0.0) -> pd.DataFrame:
    """Return random similarities of the benchmark; ``lift`` is added to s_c0_i0."""
    values = np.random.default_rng(seed).random((60, len(COLUMNS)))
    rows = pd.DataFrame(values, columns=COLUMNS).assign(instance_id=[f"i{n}" for n in range(60)], model=model)
    return tables.frame(tables.SIMILARITIES, rows.assign(s_c0_i0=rows["s_c0_i0"] + lift))


def summary(similarities: pd.DataFrame) -> pd.DataFrame:
    rows = summarise(similarities, benchmark(), bootstrap=100, seed=0, benchmark="b")
    tables.check(tables.METRICS, rows, "test")
    return rows.set_index(["model", "subset", "metric"])


def test_each_subset_is_the_mean_over_its_own_instances() -> None:
    rows = scored("m", 1)
    found, hits, subtypes = summary(rows), outcomes(rows).hits, benchmark()["subtype"]
    for metric in METRICS:
        each = {s: hits[metric][subtypes == s].mean() for s in SIZES}
        for subset, value in each.items():
            assert found.loc[("m", subset, metric), "value"] == pytest.approx(value)
            assert found.loc[("m", subset, metric), "n"] == SIZES[subset]
        assert found.loc[("m", "all", metric), "value"] == pytest.approx(hits[metric].mean())
        assert found.loc[("m", "macro", metric), "value"] == pytest.approx(np.mean(list(each.values())))
        without = hits[metric][subtypes != "add_obj"]
        assert found.loc[("m", "without_add", metric), "value"] == pytest.approx(without.mean())
        assert found.loc[("m", "without_add", metric), "n"] == 42


def test_intervals_hold_their_value() -> None:
    found = summary(scored("m", 2))
    assert (found["ci_low"] <= found["value"]).all()
    assert (found["value"] <= found["ci_high"]).all()


def test_the_order_of_rows_and_further_models_change_nothing() -> None:
    rows = scored("m", 3)
    shuffled = pd.concat([rows, scored("other", 4).sample(frac=1, random_state=0)])
    pd.testing.assert_frame_equal(summary(rows).loc[["m"]], summary(shuffled).loc[["m"]])


def test_what_no_instance_has_is_unscored_and_not_zero() -> None:
    rows = scored("m", 5).assign(s_c2_i0=np.nan, t_p1_p2=np.nan)
    found = summary(rows)
    assert found.loc[("m", "all", "itt"), "n"] == 0
    assert np.isnan(found.loc[("m", "all", "itt"), "value"])
    assert np.isnan(found.loc[("m", "macro", "tot"), "value"])


def test_macro_is_over_the_subtypes_that_were_scored() -> None:
    rows = scored("m", 6)
    rows.loc[benchmark()["type"] == "add", ["s_c0_i1", "s_c1_i1"]] = np.nan
    found = summary(rows)["value"]["m"]
    expected = (found["replace_obj", "group"] + found["swap_att", "group"]) / 2
    assert found["macro", "group"] == pytest.approx(expected)


def test_ties_are_counted() -> None:
    rows = scored("m", 7)
    rows.loc[:9, "s_c1_i0"] = rows.loc[:9, "s_c0_i0"]
    assert summary(rows).loc[("m", "all", "accuracy"), "ties"] == 10
    assert summary(rows).loc[("m", "all", "tot"), "ties"] == 0


def test_an_unknown_instance_is_an_error() -> None:
    rows = scored("m", 8)
    rows.loc[3, "instance_id"] = "elsewhere"
    with pytest.raises(DataError, match="'elsewhere'"):
        summary(rows)


def test_nothing_scored_is_an_empty_table() -> None:
    assert summary(scored("m", 9).iloc[:0]).empty


def test_seeds_are_gathered_by_variant() -> None:
    assert variant_of("negative_texts-11") == "negative_texts"
    assert variant_of("base") == "base"
    models = pd.concat([scored("base", 0), scored("v-1", 1), scored("v-2", 2)])
    metrics = summary(models)
    rows = summarise_variants(metrics.reset_index()).set_index(["variant", "subset", "metric"])
    one, two = (metrics.loc[(m, "all", "group"), "value"] for m in ("v-1", "v-2"))
    assert rows.loc[("v", "all", "group"), "mean"] == pytest.approx((one + two) / 2)
    assert rows.loc[("v", "all", "group"), "seeds"] == 2
    assert rows.loc[("base", "all", "group"), "seeds"] == 1
    assert np.isnan(rows.loc[("base", "all", "group"), "sd"])


def test_differences_are_paired_and_find_a_lift() -> None:
    models = pd.concat([scored("base", 0), scored("v-1", 0, lift=0.5), scored("v-2", 0, lift=0.5)])
    rows = compare_variants(models, benchmark(), bootstrap=200, seed=0)
    rows = rows.set_index(["a", "b", "subset", "metric"])
    metrics = summary(models)["value"]
    lift = rows.loc[("v", "base", "all", "accuracy")]
    expected = metrics["v-1", "all", "accuracy"] - metrics["base", "all", "accuracy"]
    assert lift["difference"] == pytest.approx(expected)
    assert 0 < lift["ci_low"] <= lift["difference"] <= lift["ci_high"]
    assert rows.loc[("v", "base", "all", "tot")].tolist() == [0, 0, 0]
    macro = rows.loc[("v", "base", "macro", "accuracy"), "difference"]
    each = [rows.loc[("v", "base", s, "accuracy"), "difference"] for s in SIZES]
    assert macro == pytest.approx(np.mean(each))
