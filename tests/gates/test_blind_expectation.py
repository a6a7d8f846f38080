"""The expectation on blind accuracy, in a plain Great Expectations suite over a plain frame."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from caramel.blind.scores import score_pairs
from caramel.gates.blind_expectation import QUICK, compute_accuracies
from caramel.runtime.environment import be_quiet

THINGS = ("dog", "cat", "bus", "car", "bench", "chair", "boat", "horse")


def even(rows: int, seed: int = 0) -> pd.DataFrame:
    """Return pairs whose caption and negative are drawn alike: nothing gives either away."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(THINGS, 2, replace=False) for _ in range(rows)])
    texts = [[f"A {a} near a {b}.", f"A {b} near a {a}."] for a, b in pairs]
    columns = {"text": [t[0] for t in texts], "foil": [t[1] for t in texts]}
    return pd.DataFrame(columns).assign(file=[f"{i // 2}.jpg" for i in range(rows)])


def checked(rows: pd.DataFrame, **kwargs: Any) -> Any:
    """Return what Great Expectations makes of one expectation, given by its class."""
    be_quiet()
    import great_expectations as gx

    from caramel.gates.expectations import ExpectBlindAccuracyToBeAtMost

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("p").add_dataframe_asset("a")
    batch = asset.add_batch_definition_whole_dataframe("b").get_batch({"dataframe": rows})
    suite = gx.ExpectationSuite(name="s", expectations=[ExpectBlindAccuracyToBeAtMost(**kwargs)])
    return batch.validate(suite).results[0]


MINE: dict[str, Any] = {"column_caption": "text", "column_negative": "foil", "column_group": "file"}


def test_texts_that_are_drawn_alike_pass() -> None:
    found = checked(even(600), max_accuracy=0.6, **MINE)
    assert found.success, found.result
    assert "of 600 rows" in found.result["observed_value"]
    assert found.result["observed_value"].endswith("accepted: shown to be at most 60.0 %")


def test_too_few_rows_are_no_proof_but_pass_by_name_and_no_row_is_blamed() -> None:
    kwargs = {**MINE, "max_accuracy": 0.55, "scorers": ["length"]}
    found = checked(even(200), **kwargs)
    assert not found.success
    assert "undecided about 55.0 %: too few rows" in found.result["observed_value"]
    assert "unexpected_count" not in found.result
    passed = checked(even(200), **kwargs, acceptance="not_refuted")
    assert passed.success
    assert passed.result["observed_value"] == found.result["observed_value"]


def test_an_unknown_rule_accepts_nothing() -> None:
    found = checked(even(40), max_accuracy=1.0, scorers=["length"], acceptance="none", **MINE)
    assert not found.success
    assert found.result["observed_value"] == "acceptance = 'none' is not one of equivalence, not_refuted"


@pytest.mark.parametrize(
    ("scorer", "plant"),
    [
        ("length", lambda text: text[:-1] + " indeed."),
        ("final_punctuation", lambda text: text[:-1]),
        ("casing", str.title),
        ("ngram", lambda text: text.replace("near", "beside")),
        ("probe", lambda text: text.replace("near", "beside")),
    ],
)
def test_each_quick_scorer_finds_its_shortcut_and_the_rows_that_it_gets_right(
    scorer: str, plant: Any
) -> None:
    rows = even(300)
    rows["foil"] = rows["foil"].where(rows.index % 2 == 0, rows["foil"].map(plant))
    found = checked(rows, max_accuracy=0.55, scorers=[scorer], **MINE)
    assert not found.success
    assert found.result["observed_value"].startswith(f"{scorer}: ")
    named = found.result["partial_unexpected_index_list"]
    planted = sum(index % 2 for index in named)
    assert len(named) == 20
    assert planted >= 18, "the plainest rows are those with the shortcut"
    assert 150 <= found.result["unexpected_count"] <= 240


def test_the_accuracy_is_that_of_score_pairs_out_of_fold() -> None:
    rows = even(120).assign(kind=["swap", "replace"] * 60)
    table = rows.assign(
        pair_id=rows.index.astype(str), negative_id=rows.index.astype(str), image_id=rows["file"]
    ).rename(columns={"text": "caption", "foil": "negative_caption", "kind": "type"})
    pairs, negatives = table[["pair_id", "image_id", "caption"]], table.drop(columns=["caption", "image_id"])
    scores = score_pairs(pairs, negatives, scorers=("ngram", "probe"), folds=4, seed=7)
    found = compute_accuracies(rows, **MINE, column_type="kind", scorers=("ngram", "probe"), folds=4, seed=7)
    for name in ("ngram", "probe"):
        mine = scores[scores["scorer"] == name]
        gap = mine["positive_score"] - mine["negative_score"]
        hits = ((gap > 0) + 0.5 * (gap == 0)).reset_index(drop=True)
        expected = {"": hits.mean()} | hits.groupby(rows["kind"]).mean().to_dict()
        assert {a.subset: a.accuracy for a in found if a.scorer == name} == pytest.approx(expected)


def test_a_shortcut_of_one_type_is_not_hidden_among_the_others() -> None:
    rows = even(600).assign(kind=["swap"] * 60 + ["replace"] * 540)
    rows["foil"] = rows["foil"].where(rows["kind"] != "swap", rows["foil"] + "!")
    kwargs = {"max_accuracy": 0.65, "scorers": ["final_punctuation"], **MINE}
    assert checked(rows, **kwargs).success
    found = checked(rows, column_type="kind", **kwargs)
    assert not found.success
    assert found.result["observed_value"].startswith("final_punctuation on swap: 100.0 %")
    assert set(found.result["partial_unexpected_index_list"]) <= set(range(60))


def test_gaps_are_read_from_their_columns() -> None:
    rows = even(100).assign(vera_gap=0.8)
    rows.loc[:9, "vera_gap"] = 0.0
    found = checked(rows, max_accuracy=1.0, scorers=["vera"], **MINE)
    assert found.success
    assert found.result["observed_value"].startswith("vera: 95.0 %"), "a tie counts half"
    assert not checked(rows, max_accuracy=0.8, scorers=["vera"], **MINE).success


def test_all_scorers_whose_gaps_are_given_are_judged_and_there_must_be_one() -> None:
    rows = even(100).assign(vera_gap=0.0, length_gap=0.8)
    found = checked(rows, max_accuracy=0.8, scorers="given", **MINE)
    assert not found.success
    assert found.result["observed_value"].startswith("length: 100.0 %")
    assert checked(rows.drop(columns="length_gap"), max_accuracy=0.8, scorers="given", **MINE).success
    without = checked(even(100), max_accuracy=1.0, scorers="given", **MINE)
    assert not without.success
    assert without.result["observed_value"] == "no scorer is named"


def test_rows_without_a_score_fail_and_are_named() -> None:
    rows = even(100).assign(vera_gap=0.0)
    rows.loc[[4, 8], "vera_gap"] = np.nan
    found = checked(rows, max_accuracy=1.0, scorers=["vera"], **MINE)
    assert not found.success
    assert found.result["observed_value"] == "vera: 2 of 100 rows have no score"
    assert found.result["partial_unexpected_index_list"] == [4, 8]


def test_few_rows_refute_nothing_and_rows_of_one_group_count_as_few() -> None:
    rows = even(400).assign(vera_gap=0.8)
    kwargs = {**MINE, "scorers": ["vera"], "max_accuracy": 0.55, "acceptance": "not_refuted"}
    assert not checked(rows, **kwargs).success
    assert checked(rows.head(3), **kwargs).success
    assert checked(rows.assign(file="one.jpg"), **kwargs).success


def test_without_a_group_rows_of_one_caption_belong_together() -> None:
    rows = even(60).assign(text="A dog near a cat.", vera_gap=0.8)
    kwargs = {**MINE, "scorers": ["vera"], "max_accuracy": 0.55, "column_group": None}
    assert checked(rows, **kwargs, acceptance="not_refuted").success


def test_no_scorer_is_no_proof_and_an_unknown_one_is_an_error() -> None:
    assert not checked(even(40), max_accuracy=1.0, scorers=[], **MINE).success
    found = checked(even(40), max_accuracy=1.0, scorers=["lenght"], **MINE)
    assert not found.success
    assert "Did you mean 'length'?" in json.dumps(found.exception_info)


def test_a_limit_in_per_cent_is_no_limit() -> None:
    found = checked(even(40), max_accuracy=55, scorers=["length"], **MINE)
    assert not found.success
    assert found.result["observed_value"] == "max_accuracy = 55 is not in [0, 1]"


def test_the_example_in_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from caramel.gates import expectations

    be_quiet()
    monkeypatch.chdir(tmp_path)
    documentation = str(expectations.__doc__)
    example = "\n".join(line[4:] for line in documentation.splitlines() if line.startswith("    "))
    rows = even(600).assign(kind="swap")
    for said, foil in (("True", rows["foil"]), ("False", rows["text"])):
        rows.assign(foil=foil).to_csv("pairs.csv", index=False)
        exec(compile(example, "example", "exec"), {})
        assert capsys.readouterr().out.strip().endswith(said)


def test_the_order_of_the_rows_changes_nothing() -> None:
    rows = even(80)
    kwargs = {**MINE, "column_type": None, "scorers": QUICK, "folds": 5, "seed": 1}
    turned = rows.iloc[::-1]
    one, other = ([str(a) for a in compute_accuracies(table, **kwargs)] for table in (rows, turned))
    assert one == other
