"""Check a table of people's answers, and split structured answers into one row per question.

Answers to different instructions measure different things. They are therefore never pooled: a table holds one task
under one guideline, or it is an error. Items with known answers test the annotators, and whoever failed the
qualification was sent away: neither says anything about the data, and ``select_judged`` leaves both out.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from caramel.errors import DataError, format_items
from caramel.io.readers import try_parse_json
from caramel.io.validators import format_value
from caramel.schemas.annotation import ANNOTATIONS
from caramel.utils.arrays import Ints

# Questions of the tasks whose answer is a JSON object, each with its possible answers; see ``ANNOTATIONS``.
QUESTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "compare": {"plausible": ("first", "second"), "grammatical": ("first", "second")},
    "baseline": {"i0": ("c0", "c1"), "i1": ("c0", "c1"), "c0": ("i0", "i1"), "c1": ("i0", "i1")},
}
CLOSED_SETS: dict[str, tuple[str, ...]] = {
    "fits": ("positive", "negative", "both", "neither"),
    "true": ("yes", "no"),
}
FREE_TEXT = ("correct", "resolve")  # tasks whose answers are sentences: categories exist only within an item


class Ratings(NamedTuple):
    """Answers to one question as codes.

    Attributes:
        items: n item ids, sorted.
        annotators: m pseudonyms, sorted.
        categories: k distinct answers, sorted.
        codes: (n, m) index of the answer among the categories; −1 where there is none.
    """

    items: list[str]
    annotators: list[str]
    categories: list[str]
    codes: Ints


def check_answers(answers: pd.DataFrame, where: str) -> str:
    """Return the task of table ``annotations``, after a check that its answers can be pooled.

    Raises:
        DataError: there is no answer that ``select_judged`` keeps, or there are answers of several tasks or guidelines,
            two answers of one annotator to one item, answers to one item with different content, or an answer that the
            task does not have.
    """
    if not answers["answer"].notna().any():
        raise DataError(
            f"{where} has no answer: {len(answers)} rows, all skipped or unanswered. Collect answers with `caramel annotate`."
        )
    for column, advice in (
        ("task", "Export each task to a file of its own."),
        (
            "guideline",
            "Answers to different instructions cannot be pooled. Export the answers to one version of the guideline, or "
            "have the others answered again.",
        ),
    ):
        counts = answers[column].value_counts()
        if len(counts) > 1:
            lines = [f"{format_value(name)}: {number} answers" for name, number in counts.items()]
            raise DataError(
                f"{where} mixes {len(counts)} values of {column}:\n{format_items(lines)}\n{advice}"
            )
    task = str(answers["task"].iloc[0])
    again = answers[answers.duplicated(["item_id", "annotator"])]
    if len(again):
        lines = [
            f"item {format_value(row.item_id)}, annotator {format_value(row.annotator)}"
            for row in again.itertuples()
        ]
        raise DataError(
            f"{where} has {len(again)} further answers of an annotator to the same item:\n{format_items(lines)}\n"
            f"Export the answers again; an item is answered once by each annotator."
        )
    contents = answers.drop_duplicates(["item_id", "content"])
    if mixed := sorted(contents.loc[contents.duplicated("item_id"), "item_id"].unique()):
        raise DataError(
            f"{where} has {len(mixed)} items that were displayed with different captions or images:\n"
            f"{format_items([format_value(name) for name in mixed])}\nAnswers to different content cannot be pooled. Give "
            "the answers of one task file."
        )
    _check_values(answers, task, where)
    if not select_judged(answers)["answer"].notna().any():
        raise DataError(
            f"{where} has no answer to a real item by an annotator who qualified: its {len(answers)} rows are of gold and "
            f"qualification items, or of annotators who failed. Have more items answered."
        )
    return task


def select_judged(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of table ``annotations`` that say something about the data: real items, annotators who qualified."""
    return answers[(answers["role"] == "item") & answers["qualified"]]


def _check_values(answers: pd.DataFrame, task: str, where: str) -> None:
    """Raise a DataError with all answers that the task does not have."""
    problems = []
    answered = answers[answers["answer"].notna()]
    for row in answered.drop_duplicates("answer").itertuples():
        answer = str(row.answer)
        if task in QUESTIONS:
            parsed = try_parse_json(answer)
            valid = isinstance(parsed, dict) and {*parsed} == {*QUESTIONS[task]}
            is_known = valid and all(parsed[name] in options for name, options in QUESTIONS[task].items())
        elif task == "choose":
            is_known = answer == "none" or (answer.isascii() and answer.isdigit())
        else:
            is_known = answer in CLOSED_SETS[task] if task in CLOSED_SETS else bool(answer.strip())
        if not is_known:
            problems.append(f"item {format_value(row.item_id)}: {format_value(answer)}")
    if problems:
        raise DataError(
            f"{where} has {len(problems)} answers that task {task!r} does not have:\n{format_items(problems)}\n"
            f"The form of each task's answers is in docs/agreement.md."
        )


def split_questions(answers: pd.DataFrame, task: str) -> dict[str, pd.DataFrame]:
    """Return the answered rows of each question; the single question of a plain task is called ``""``.

    The rows have the columns of table ``annotations``; answer, gold and order are those of the question. ``order`` is a
    list of the displayed answers, empty if it is unknown.
    """
    rows = answers[answers["answer"].notna()].reset_index(drop=True)
    orders = [try_parse_json(text) for text in rows["order"]]
    if task not in QUESTIONS:
        listed = pd.Series([_list_texts(order) for order in orders], rows.index, dtype=object)
        return {"": rows.assign(order=listed)}
    parsed = [json.loads(text) for text in rows["answer"]]
    gold = [try_parse_json(text) if isinstance(text, str) else None for text in rows["gold"]]
    return {
        name: rows.assign(
            answer=[answer[name] for answer in parsed],
            gold=pd.Series([_get_text(expected, name) for expected in gold], rows.index, dtype=object),
            order=pd.Series(
                [_list_texts(order.get(name) if isinstance(order, dict) else None) for order in orders],
                rows.index,
                dtype=object,
            ),
        )
        for name in QUESTIONS[task]
    }


def _list_texts(order: Any) -> list[str]:
    return [str(option) for option in order] if isinstance(order, list) else []


def _get_text(expected: Any, name: str) -> str | None:
    """Return the expected answer to a question, if it is known."""
    value = expected.get(name) if isinstance(expected, dict) else None
    return value if isinstance(value, str) else None


def build_ratings(rows: pd.DataFrame) -> Ratings:
    """Return the answers of one question as codes.

    Args:
        rows: ``item_id``, ``annotator`` and ``answer``; no answer is null.
    """
    items, annotators, names = (sorted(set(rows[name])) for name in ("item_id", "annotator", "answer"))
    codes = np.full((len(items), len(annotators)), -1, np.int64)
    codes[
        pd.Index(items).get_indexer(rows["item_id"]), pd.Index(annotators).get_indexer(rows["annotator"])
    ] = pd.Index(names).get_indexer(rows["answer"])
    return Ratings(items, annotators, names, codes)


def merge_candidates(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of task ``choose`` with ``some`` for any candidate.

    BiVLC reports κ of this question (3.1): the number of the chosen candidate has no meaning across items, and of two
    good candidates either may be chosen.
    """
    return rows.assign(
        answer=rows["answer"].where(rows["answer"] == "none", "some"),
        gold=rows["gold"].where(rows["gold"].isna() | (rows["gold"] == "none"), "some"),
    )


assert set(CLOSED_SETS) | set(QUESTIONS) | {"choose", *FREE_TEXT} == set(
    ANNOTATIONS.columns["task"].choices or ()
)
