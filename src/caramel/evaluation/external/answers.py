"""Convert published multiple-choice answers, in the format of SugarCrepe's GPT-4V results, to table ``answers``.

A row is ``{answer: {free_form_answer, multiple_choice_answer}, caption, negative_caption, filename, correct}``.
All rows of a file have the options in the same order. Another file has the same ids with the other order. No field
says which order it is. It is inferred from the replies, which hold ``(1)`` or ``(2)`` and the chosen caption.

Confirmed in github.com/RAIVNLab/sugar-crepe, gpt-4v-results.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from caramel.benchmarks.content import TEXTS_HASH, hash_captions
from caramel.errors import DataError, format_items
from caramel.evaluation.results.content_match import check_contents
from caramel.io.validators import read_optional_text, read_text_field
from caramel.schemas.evaluation import ANSWERS
from caramel.schemas.io import build_frame

WORDING = "best_describes"  # "Which caption best describes the image?"
ORDERS = ("PN", "NP")
_OPTION = re.compile(r"\(([12])\)")
KEY = ["model", "instance_id"]


def is_answers(rows: pd.DataFrame) -> bool:
    """Return whether any row holds an answer with the chosen option; ``build_answers`` requires it of every row.

    An answer written as text, as in a table, counts too; ``build_answers`` rejects it.
    """
    if "answer" not in rows.columns or "correct" not in rows.columns:
        return False
    return any(
        isinstance(answer, dict | str) and "multiple_choice_answer" in answer for answer in rows["answer"]
    )


def build_answers(
    rows: pd.DataFrame, described: pd.DataFrame, right: Iterable[float], locations: Sequence[str]
) -> pd.DataFrame:
    """Return table ``answers`` for the rows of a file, without column ``benchmark``.

    Args:
        rows: rows of the file as released.
        described: model, instance_id, image_id and subsets of each row.
        right: 1, 0, or NaN where the row has no verdict.
        locations: location of each row, for messages.

    Raises:
        DataError: an answer is not an object, a field is not text, or no reply of the file shows the order of its
            options.
    """
    records: Any = rows.to_dict("records")
    meant, replies = (
        [
            read_optional_text(row["answer"], field, f"{where}, field 'answer'")
            for row, where in zip(records, locations, strict=True)
        ]
        for field in ("multiple_choice_answer", "free_form_answer")
    )
    order = _infer_order(records, replies, locations)
    outcomes = [_determine_outcome(hit, option) for hit, option in zip(right, meant, strict=True)]
    question_columns: dict[str, Any] = {
        "image": "positive",
        "n_options": 2,
        "order": order,
        "wording": WORDING,
    }
    answer_columns: dict[str, Any] = {
        "outcome": outcomes,
        "reply": replies,
        TEXTS_HASH: [hash_captions(row["caption"], row["negative_caption"], None) for row in records],
    }
    return described.assign(**question_columns, **answer_columns)


def _determine_outcome(right: float, meant: str | None) -> str:
    if right != right:
        return "failed"
    return "right" if right else "wrong" if meant else "unparseable"


def _infer_order(
    records: Sequence[dict[str, Any]], replies: Sequence[str | None], locations: Sequence[str]
) -> str:
    """Return the order of the options that most replies imply."""
    votes: Counter[str] = Counter()
    for row, reply, where in zip(records, replies, locations, strict=True):
        caption, negative = (read_text_field(row, name, where) for name in ("caption", "negative_caption"))
        options = set(_OPTION.findall(reply or ""))
        meant = row["answer"]["multiple_choice_answer"]
        if len(options) == 1 and caption != negative and meant in (caption, negative):
            votes[ORDERS[(options == {"1"}) != (meant == caption)]] += 1
    ranked = votes.most_common()
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        raise DataError(
            f"{locations[0]} and {len(locations) - 1} more: the replies do not show the order of the options. A "
            f"free_form_answer must name (1) or (2), and multiple_choice_answer must be the caption that it means."
        )
    return ranked[0][0]


def join_answers(files: Sequence[pd.DataFrame], benchmark: str) -> tuple[pd.DataFrame, list[str]]:
    """Return table ``answers`` of all files, and notes; an instance gets a failed answer in an order that it lacks.

    Raises:
        DataError: an instance of a model is a duplicate in one order, or has different captions in the two orders.
    """
    whole = pd.concat(files, ignore_index=True).assign(benchmark=benchmark)
    for _, rows in whole.groupby("model", sort=False):
        check_contents([rows])
    twice = whole[whole.duplicated([*KEY, "order"])]
    if len(twice):
        raise DataError(
            f"Duplicate answers ({len(twice)}) of model {twice['model'].iloc[0]!r} in one order of the options:\n"
            f"{format_items([repr(name) for name in twice['instance_id']])}\nGive each file once."
        )
    notes, parts = [], [whole]
    for model, rows in whole.groupby("model", sort=False):
        if rows["order"].nunique() == 1:
            continue
        alone = rows[~rows.duplicated("instance_id", keep=False)]
        if len(alone):
            other = alone["order"].map({"PN": "NP", "NP": "PN"})
            parts.append(alone.assign(order=other, outcome="failed", reply=None))
            notes.append(
                f"Instances of model {model!r} with an answer in only one order of the options: {len(alone)}. They are "
                f"scored only for that order. Give the files of both orders."
            )
    return build_frame(ANSWERS, pd.concat(parts, ignore_index=True)), notes
