import json

import numpy as np
import pandas as pd
import pytest
from annotated import annotated

from caramel.annotation.agreement.decide import decide_answers
from caramel.errors import DataError
from caramel.schemas.contracts import check_table
from caramel.schemas.decisions import DECISIONS

VOTES = {
    "ada": {"a": "positive", "b": "both", "c": "positive"},
    "bob": {"a": "positive", "b": "negative", "c": None},
    "cy": {"a": "negative"},
}


def decide(*tables: pd.DataFrame, method: str = "majority", min_answers: int = 1) -> pd.DataFrame:
    rows = decide_answers(
        [(f"file {n}", table) for n, table in enumerate(tables)],
        method=method,  # type: ignore[arg-type]
        min_answers=min_answers,
    )
    check_table(DECISIONS, rows, "decisions")
    return rows.replace({np.nan: None}).set_index("item_id")


def test_the_majority_decides_and_a_tie_is_shown() -> None:
    rows = decide(annotated(VOTES))
    assert rows.loc["a", ["decision", "support"]].tolist() == ["positive", pytest.approx(2 / 3)]
    assert rows.loc["b", "decision"] is None
    assert json.loads(rows.loc["b", "votes"]) == {"both": 1, "negative": 1}
    assert list(rows.loc["a", "annotators"]) == ["ada", "bob", "cy"]
    assert rows.loc["c", "decision"] == "positive"
    assert list(rows.loc["c", "annotators"]) == ["ada"]  # a skipped item is no answer
    assert rows.loc["a", "decided_at"] == "2026-01-01T00:00:00+00:00"


def test_an_item_with_too_few_answers_is_undecided() -> None:
    assert decide(annotated(VOTES), min_answers=2)["decision"].tolist() == ["positive", None, None]


def test_a_text_without_an_answer_is_a_row_without_votes() -> None:
    answered = annotated({"ada": {"a": "A."}}, task="correct")
    unanswered = annotated({"": {"b": None}}, task="correct", role="unanswered", skipped=None, seconds=None)
    failed = annotated({"cy": {"c": "C."}}, task="correct", qualified=False)
    rows = decide(pd.concat([answered, unanswered, failed]))
    assert rows[["decision", "votes", "skipped"]].to_numpy().tolist() == [
        ["A.", '{"A.": 1}', None],
        [None, "{}", None],
        [None, "{}", None],
    ]


def test_one_answer_resolves_two_different_corrections_however_many_are_required() -> None:
    corrected = annotated({"ada": {"a": "A."}, "bob": {"a": "B."}}, task="correct")
    resolved = annotated({"cy": {"a": "B."}}, task="resolve")
    assert decide(corrected, resolved, min_answers=2).loc["a", "decision"] == "B."


def test_estimated_errors_decide_between_a_good_and_a_bad_annotator() -> None:
    truth = {f"i{n:02d}": ("yes", "no")[n % 2] for n in range(40)}
    bad = {"cy": {item: ("yes", "no")[n % 3 == 0] for n, item in enumerate(truth)}}
    apart = {"ada": {**truth, "x": "yes"}, "bob": truth, "cy": {**bad["cy"], "x": "no"}}
    rows = decide(annotated(apart, task="true"), method="dawid_skene")
    assert rows.loc["x", "decision"] == "yes"
    assert decide(annotated(apart, task="true")).loc["x", "decision"] is None
    assert rows.loc["x", "support"] > 0.9


def test_candidates_are_decided_by_majority_since_their_numbers_mean_nothing_across_items() -> None:
    votes = {"ada": {"a": "0", "b": "2"}, "bob": {"a": "1", "b": "2"}, "cy": {"a": "3", "b": "2"}}
    rows = decide(annotated(votes, task="choose"), method="dawid_skene")
    assert rows["decision"].to_dict() == {"a": None, "b": "2"}
    assert set(rows["method"]) == {"majority"}


def test_an_even_estimate_is_a_tie() -> None:
    rows = decide(annotated({"ada": {"a": "yes"}, "bob": {"a": "no"}}, task="true"), method="dawid_skene")
    assert rows["decision"].tolist() == [None]


def test_a_third_annotator_resolves_what_two_corrected_differently() -> None:
    corrected = annotated({"ada": {"p": "One.", "q": "A."}, "bob": {"p": "One.", "q": "B."}}, task="correct")
    resolved = annotated({"cy": {"q": "C."}}, task="resolve")
    rows = decide(resolved, corrected, method="dawid_skene")
    assert rows["decision"].to_dict() == {"p": "One.", "q": "C."}
    assert rows["method"].to_dict() == {"p": "majority", "q": "resolved"}
    assert set(rows["task"]) == {"correct"}
    assert decide(corrected)["decision"].to_dict() == {"p": "One.", "q": None}


def test_queries_of_an_instance_are_decided_one_by_one() -> None:
    answers = [{"i0": "c0", "i1": one, "c0": "i0", "c1": "i1"} for one in ("c0", "c1")]
    table = annotated({n: {"a": json.dumps(a)} for n, a in zip("xy", answers, strict=True)}, task="baseline")
    rows = decide(table).reset_index().set_index("question")
    assert rows["decision"].to_dict() == {"i0": "c0", "i1": None, "c0": "i0", "c1": "i1"}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([annotated(VOTES), annotated(VOTES)], "file 1: task 'fits' is given twice"),
        ([annotated({"cy": {"q": "C."}}, task="resolve")], "1 items of task 'resolve' have no answer"),
        ([annotated(VOTES, guideline="g"), annotated({})], "file 1 has no answer"),
    ],
)
def test_tables_that_do_not_fit_together_are_refused(tables: list[pd.DataFrame], message: str) -> None:
    with pytest.raises(DataError, match=message):
        decide(*tables)
