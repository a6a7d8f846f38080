"""Only real items, and annotators who qualified, say something about the data."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from annotated import annotated, build_swap_instances, hash_swap_instances, index_swap_images

from caramel.annotation.agreement.annotators import describe_annotators
from caramel.annotation.agreement.answers import check_answers
from caramel.annotation.agreement.decide import decide_answers
from caramel.annotation.agreement.human_row import compute_baseline_metrics
from caramel.annotation.agreement.summary import summarise_agreement
from caramel.errors import DataError
from caramel.registry import BENCHMARKS
from caramel.utils.resampling import Bootstrap

BOOTSTRAP = Bootstrap(100, 0)


def draw_answers(seed: int = 0) -> pd.DataFrame:
    """Return 30 trial items that two annotators know, 30 real ones that they do not, and one who failed."""
    rng = np.random.default_rng(seed)
    truth = {f"q{n:02d}": ("yes", "no")[n % 2] for n in range(30)}
    real = {name: {f"r{n:02d}": ("yes", "no")[rng.integers(2)] for n in range(30)} for name in "abc"}
    wrong = {item: ("no", "yes")[answer == "no"] for item, answer in truth.items()}
    rows = annotated(
        {"a": truth | real["a"], "b": truth | real["b"], "failed": wrong | real["c"]}, task="true"
    )
    is_trial = rows["item_id"].str.startswith("q")
    return rows.assign(
        role=np.where(is_trial, "qualification", "item"),
        gold=rows["item_id"].map(truth),
        qualified=rows["annotator"] != "failed",
    )


def test_items_with_known_answers_and_people_who_failed_change_no_agreement() -> None:
    rows = draw_answers()
    real = rows[(rows["role"] == "item") & rows["qualified"]]
    whole, alone = (summarise_agreement(table, "true", bootstrap=BOOTSTRAP) for table in (rows, real))
    pd.testing.assert_frame_equal(whole, alone)
    alpha = whole.set_index("measure")["value"]["krippendorff_alpha"]
    assert abs(alpha) < 0.35, "they answer the real items at random"


def test_no_decision_is_made_of_them() -> None:
    rows = decide_answers([("here", draw_answers())], method="majority", min_answers=1)
    assert rows["item_id"].str.startswith("r").all()
    assert len(rows) == 30
    assert {name for names in rows["annotators"] for name in names} == {"a", "b"}


def test_people_who_failed_are_listed_with_a_flag_and_gold_items_measure_the_others() -> None:
    rows = draw_answers()
    gold = annotated(
        {"a": {"g1": "yes", "g2": "no"}, "b": {"g1": "yes", "g2": "yes"}}, task="true", gold="yes"
    )
    table = describe_annotators(
        pd.concat([rows, gold.assign(role="gold")]), "true", bootstrap=BOOTSTRAP
    ).set_index("annotator")
    assert "failed" in table.loc["failed", "flags"]
    assert table.loc["failed", "answered"] == 0
    assert table.loc[["a", "b"], "answered"].tolist() == [30, 30]
    assert table.loc[["a", "b"], "gold_items"].tolist() == [2, 2]
    assert table.loc[["a", "b"], "gold_accuracy"].tolist() == [0.5, 1.0]


def test_a_baseline_is_that_of_real_instances() -> None:
    right, wrong = ({"i0": "c0", "i1": one, "c0": "i0", "c1": "i1"} for one in ("c1", "c0"))
    replies = {"a": {"i0": right, "i1": wrong, "i2": right}, "b": {"i0": right, "i1": wrong, "i3": right}}
    rows = annotated(
        {n: {i: json.dumps(r) for i, r in of.items()} for n, of in replies.items()},
        "baseline",
        hash_swap_instances(4),
    )
    rows = rows.assign(role=np.where(rows["item_id"] == "i1", "gold", "item"))
    metrics = compute_baseline_metrics(
        rows,
        build_swap_instances(4),
        index_swap_images(4),
        model="people",
        benchmark=BENCHMARKS["instances"],
        where="here",
    )
    group = metrics[(metrics["subset"] == "all") & (metrics["metric"] == "group")]
    assert group[["value", "n"]].to_numpy().tolist() == [[1.0, 4]]


def test_a_table_without_real_items_is_an_error() -> None:
    rows = draw_answers()
    for table in (rows[rows["role"] == "qualification"], rows[~rows["qualified"]]):
        with pytest.raises(DataError, match=r"here has no answer to a real item.*Have more items answered"):
            check_answers(table, "here")


def test_answers_to_one_item_with_different_images_are_not_pooled() -> None:
    rows = annotated({"a": {"x": "yes"}, "b": {"x": "yes"}}, task="true")
    with pytest.raises(DataError, match=r"(?s)here has 1 items that were displayed with different.*'x'"):
        check_answers(rows.assign(content=["one", "other"]), "here")


def test_fatigue_is_not_judged_where_the_order_of_answers_is_unknown() -> None:
    items = [*(f"replace{n:03d}" for n in range(60)), *(f"swap{n:03d}" for n in range(60))]
    rng = np.random.default_rng(0)

    def answer(name: str, item: str) -> str:  # one clicks at random at swaps, which come last
        is_random = name == "c" and item.startswith("swap")
        return ("yes", "no")[int(rng.random() < (0.5 if is_random else 0.02))]

    rows = annotated({name: {item: answer(name, item) for item in items} for name in "abc"}, task="true")
    told = describe_annotators(rows, "true", bootstrap=BOOTSTRAP)
    is_tired = ["tired" in flags for flags in told["flags"]]
    assert is_tired == [False, False, True], "the turn tells that the random clicks came last"
    unknown = describe_annotators(rows.assign(turn=None), "true", bootstrap=BOOTSTRAP)
    assert not any("tired" in flags for flags in unknown["flags"])
    assert unknown["late_p"].isna().all()
    shuffled = rows.assign(turn=rng.permutation(len(rows)))
    assert not any(
        "tired" in flags for flags in describe_annotators(shuffled, "true", bootstrap=BOOTSTRAP)["flags"]
    )


def test_a_text_that_all_skipped_is_a_row_with_their_reasons_and_a_third_who_skips_ends_the_matter() -> None:
    corrected = annotated({"a": {"p": "One.", "q": None}, "b": {"p": "Two.", "q": None}}, task="correct")
    rows = decide_answers([("here", corrected)], method="majority", min_answers=1).set_index("item_id")
    assert rows.loc["q", ["decision", "skipped"]].tolist() == [None, "unclear"]
    assert rows.loc["p", "decision"] is None
    assert rows.loc["p", "skipped"] is None
    resolved = annotated({"c": {"p": None, "q": "Three."}}, task="resolve")
    both = decide_answers([("one", corrected), ("two", resolved)], method="majority", min_answers=1)
    both = both.set_index("item_id")
    assert both.loc["p", ["skipped", "method"]].tolist() == ["unclear", "resolved"]
    assert both.loc["q", "decision"] == "Three."
