import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from annotated import annotated, index_swap_images

from caramel.annotation.agreement.human_row import (
    RIGHT,
    compute_baseline_metrics,
    compute_two_way_interval,
    list_foreign_items,
)
from caramel.annotation.content import hash_instances
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark
from caramel.registry import BENCHMARKS
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import METRICS
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame


def instances(number: int) -> pd.DataFrame:
    rows = [
        {
            "instance_id": f"i{n}",
            "image_id": f"im{n}",
            "caption": "A.",
            "negative_caption": "B.",
            "negative_image_id": f"n{n}",
            "type": ("swap", "replace")[n % 2],
            "subtype": ("swap_obj", "replace_att")[n % 2],
            "split": "test",
        }
        for n in range(number)
    ]
    return build_frame(INSTANCES, rows)


def reply(*wrong: str) -> str:
    other = {"c0": "c1", "c1": "c0", "i0": "i1", "i1": "i0"}
    return json.dumps({query: other[right] if query in wrong else right for query, right in RIGHT.items()})


def score(
    answers: pd.DataFrame, number: int = 4, benchmark: Benchmark = BENCHMARKS["instances"]
) -> pd.DataFrame:
    rows = compute_baseline_metrics(
        answers.assign(
            content=answers["item_id"].map(hash_instances(instances(number), index_swap_images(number)))
        ),
        instances(number),
        index_swap_images(number),
        model="people",
        benchmark=benchmark,
        where="here",
    )
    check_table(METRICS, rows, "metrics")
    return rows.set_index(["subset", "metric"])


def test_a_metric_is_a_hit_if_all_of_its_queries_are_right() -> None:
    answers = {
        "ada": {"i0": reply(), "i1": reply("i0")},
        "bob": {"i2": reply("c1"), "i3": reply("i1", "c0"), "i1": None},
    }
    rows = score(annotated(answers, task="baseline"))
    values = rows.loc["all", "value"].to_dict()
    assert values == {
        "accuracy": 0.75,
        "i2t": 0.5,
        "t2i": 0.5,
        "group": 0.25,
        "i_pos2t": 0.75,
        "i_neg2t": 0.75,
        "t_pos2i": 0.75,
        "t_neg2i": 0.75,
    }
    assert rows.loc[("all", "group"), ["n", "unscored"]].tolist() == [4, 1]
    assert rows.loc[("swap_obj", "group"), "value"] == 0.5
    assert rows.loc[("replace", "group"), ["value", "n", "unscored"]].tolist() == [0.0, 2, 1]
    assert (rows["ci_low"].fillna(0) <= rows["value"]).all()


def test_one_person_has_no_interval_because_other_people_are_unknown() -> None:
    rows = score(annotated({"ada": {"i0": reply(), "i1": reply("i0")}}, task="baseline"))
    assert rows["ci_low"].isna().all()


def test_answers_of_another_task_or_to_other_instances_are_refused() -> None:
    with pytest.raises(DataError, match="here holds answers of task 'true'"):
        score(annotated({"ada": {"i0": "yes"}}, task="true"))
    with pytest.raises(DataError, match=r"1 answered items of here are not among the 4 instances.*\n.*'i9'"):
        score(annotated({"ada": {"i9": reply()}}, task="baseline"))


def test_answers_to_instances_whose_images_are_drawn_again_are_refused() -> None:
    contents = hash_instances(instances(4), index_swap_images(4))
    answers = annotated({"ada": {"i0": reply(), "i1": reply()}}, "baseline", contents)
    drawn_again = index_swap_images(4)
    drawn_again.loc[drawn_again["image_id"] == "n1", "sha256"] = "0" * 64
    assert list_foreign_items(answers, instances(4), index_swap_images(4)) == []
    assert list_foreign_items(answers, instances(4), drawn_again) == ["i1"]


def test_people_who_differ_widen_the_interval() -> None:
    people, items = np.repeat(np.arange(10), 20), np.arange(200)
    apart = (people < 5).astype(float)  # half of them are always right, the others never
    mixed = (items % 2 == 0).astype(float)
    _, low, high = compute_two_way_interval(apart, people, items)
    _, less, more = compute_two_way_interval(mixed, people, items)
    assert high - low > 3 * (more - less)
    assert less < 0.5 < more


def test_all_right_is_not_certain_and_one_cluster_is_unknown() -> None:
    people, items = np.repeat(np.arange(10), 20), np.arange(200)
    share, low, high = compute_two_way_interval(np.ones(200), people, items)
    assert (share, high) == (1.0, 1.0)
    assert 0.6 < low < 0.8
    assert math.isnan(compute_two_way_interval(np.ones(3), np.zeros(3, int), np.arange(3))[1])


def test_the_macro_mean_counts_each_subtype_once_as_for_models() -> None:
    answers = {  # swap_obj: 1 of 3 right; replace_att: 1 of 1
        "ada": {"i0": reply(), "i2": reply("i0"), "i1": reply()},
        "bob": {"i4": reply("i0")},
    }
    rows = score(annotated(answers, task="baseline"), number=5)
    assert rows.loc[("all", "group"), "value"] == 0.5
    assert rows.loc[("macro", "group"), "value"] == pytest.approx((1 / 3 + 1) / 2)
    assert rows.loc[("macro", "group"), "n"] == 4
    assert rows.loc[("macro", "group"), "ci_low"] < 2 / 3 < rows.loc[("macro", "group"), "ci_high"]


def test_the_macro_mean_is_over_the_subsets_that_the_benchmark_selects() -> None:
    answers = {  # swap_obj: 1 of 3 right; replace_att: 1 of 1, and one skipped
        "ada": {"i0": reply(), "i2": reply("i0"), "i1": reply()},
        "bob": {"i4": reply("i0"), "i3": None},
    }
    table = annotated(answers, task="baseline")
    benchmark = BENCHMARKS["instances"]
    for selected in ({"swap_obj"}, {"swap"}):
        rows = score(table, 5, replace(benchmark, macro=selected.__contains__))
        assert rows.loc[("macro", "group"), "value"] == pytest.approx(1 / 3)
        assert rows.loc[("macro", "group"), ["n", "unscored"]].tolist() == [3, 0]
    rows = score(table, 5, replace(benchmark, macro=lambda subset: False))
    assert "macro" not in rows.index.get_level_values("subset")


def test_the_interval_of_a_macro_mean_covers_the_truth() -> None:
    rng, held, trials = np.random.default_rng(0), 0, 400
    people = np.repeat(np.arange(12), 25)
    groups = np.array([0] * 20 + [1] * 5)[np.arange(300) % 25]
    truth = np.array([0.9, 0.6])
    for _ in range(trials):
        values = (rng.random(300) < truth[groups]).astype(float)
        _, low, high = compute_two_way_interval(values, people, np.arange(300), groups=groups)
        held += low <= truth.mean() <= high
    assert 0.93 <= held / trials <= 0.985
