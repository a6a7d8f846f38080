import json

import pandas as pd
import pytest
from annotated import annotated

from caramel.annotation.agreement.answers import build_ratings, check_answers, split_questions
from caramel.errors import ContractError, DataError
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.contracts import check_table

GOOD = {"ada": {"a": "positive", "b": "both"}, "bob": {"a": "negative", "b": None}}


def test_good_answers_have_one_task() -> None:
    rows = annotated(GOOD)
    check_table(ANNOTATIONS, rows, "here")
    assert check_answers(rows, "here") == "fits"
    ratings = build_ratings(split_questions(rows, "fits")[""])
    assert ratings.annotators == ["ada", "bob"]
    assert ratings.codes.tolist() == [[2, 1], [0, -1]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            pd.concat([annotated(GOOD), annotated({"cy": {"a": "both"}}, guideline="guideline-2")]),
            r"mixes 2 values of guideline:\n.*guideline-1.*4 answers\n.*cannot be pooled",
        ),
        (
            pd.concat([annotated(GOOD), annotated({"cy": {"c": "yes"}}, task="true")]),
            "mixes 2 values of task",
        ),
        (pd.concat([annotated(GOOD), annotated({"ada": {"a": "both"}})]), "1 further answers.*'a'.*'ada'"),
        (annotated({"ada": {"a": None}}), "has no answer: 1 rows, all skipped"),
        (annotated({}), "has no answer: 0 rows"),
        (annotated({"ada": {"a": "<script>alert(1)</script>"}}), "answers that task 'fits' does not have"),
        (annotated({"ada": {"a": "-1"}}, task="choose"), "answers that task 'choose' does not have"),
        (annotated({"ada": {"a": "²"}}, task="choose"), "answers that task 'choose' does not have"),
        (annotated({"ada": {"a": " "}}, task="correct"), "answers that task 'correct' does not have"),
        (
            annotated({"ada": {"a": '{"i0": "c0"}'}}, task="baseline"),
            "answers that task 'baseline' does not have",
        ),
        (annotated({"ada": {"a": "NaN"}}, task="compare"), "answers that task 'compare' does not have"),
    ],
)
def test_answers_that_cannot_be_pooled_are_refused(rows: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=rf"(?s)here.*{message}" if "here" not in message else message):
        check_answers(rows.reset_index(drop=True), "here")


def test_infinite_seconds_break_the_contract() -> None:
    with pytest.raises(ContractError, match="seconds"):
        check_table(ANNOTATIONS, annotated(GOOD, seconds=float("inf")), "here")


def test_html_in_an_id_is_a_name_like_others() -> None:
    name = "<b>&'\"</b>"
    rows = annotated({name: {name: "both"}})
    assert check_answers(rows, "here") == "fits"
    assert build_ratings(split_questions(rows, "fits")[""]).annotators == [name]


def test_a_structured_answer_is_one_row_per_question() -> None:
    answer = json.dumps({"plausible": "first", "grammatical": "second"})
    gold = json.dumps({"plausible": "second"})
    order = json.dumps({"plausible": ["second", "first"]})
    rows = annotated({"ada": {"a|b": answer}}, task="compare", gold=gold, order=order)
    questions = split_questions(rows, check_answers(rows, "here"))
    plausible, grammatical = (questions[name].iloc[0] for name in ("plausible", "grammatical"))
    assert (plausible["answer"], plausible["gold"], plausible["order"]) == (
        "first",
        "second",
        ["second", "first"],
    )
    assert (grammatical["answer"], grammatical["gold"], grammatical["order"]) == ("second", None, [])
