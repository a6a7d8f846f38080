"""Make decisions from people's answers: by majority, or by Dawid and Skene's estimate of each annotator's errors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from caramel.annotation.agreement.answers import (
    FREE_TEXT,
    build_ratings,
    check_answers,
    select_judged,
    split_questions,
)
from caramel.annotation.agreement.dawid_skene import estimate_true_answers
from caramel.errors import DataError, format_items
from caramel.io.validators import format_value
from caramel.schemas.annotation import UNANSWERED
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.io import build_frame

DecisionMethod = Literal["majority", "dawid_skene"]
TIED = 1e-9  # difference of two probabilities that counts as a tie


def decide_answers(
    tables: Sequence[tuple[str, pd.DataFrame]], *, method: DecisionMethod, min_answers: int
) -> pd.DataFrame:
    """Return table ``decisions`` for the answers of several tasks, sorted by task and item.

    A tie is a row without a decision. Where people corrected a text differently, the row of task ``resolve`` for the
    same item replaces the rows of task ``correct``. Skipped items are no answers; a text that all skipped is a row
    without a decision, with their reasons. A text of task ``correct`` that nobody answered is a row without votes.
    Items with known answers, and annotators who failed the qualification, are left out (``select_judged``).

    Args:
        tables: location for messages, and table ``annotations`` of one task; each task once.
        method: how answers to closed questions are decided. Texts (``correct``, ``resolve``) and candidates
            (``choose``) are always decided by majority: their answers mean something else in each item.
        min_answers: least number of answers to an item, at least 1; an item with fewer is undecided. One answer to task
            ``resolve`` is enough.

    Raises:
        DataError: a table cannot be pooled (see ``check_answers``), or a task is given twice.
    """
    parts: dict[str, pd.DataFrame] = {}
    for where, answers in tables:
        task = check_answers(answers, where)
        if task in parts:
            raise DataError(f"{where}: task {task!r} is given twice. Export all its answers to one file.")
        guideline = str(answers["guideline"].iloc[0])
        judged = select_judged(answers)
        how: DecisionMethod = "majority" if task in ("choose", *FREE_TEXT) else method
        questions = [
            _decide_question(rows, how, 1 if task == "resolve" else min_answers).assign(
                question=name, skipped=None
            )
            for name, rows in split_questions(judged, task).items()
        ]
        if task in FREE_TEXT:
            questions.append(_list_skipped(judged))
        if task == "correct":
            questions.append(_list_unanswered(answers, judged))
        contents = dict(zip(answers["item_id"], answers["content"], strict=True))
        decided = pd.concat([rows for rows in questions if len(rows)]).assign(task=task, guideline=guideline)
        parts[task] = decided.assign(content=decided["item_id"].map(contents))
    if "resolve" in parts:
        parts["correct"] = _replace_resolved(parts.get("correct"), parts.pop("resolve"))
    decided = pd.concat(parts.values(), ignore_index=True)
    return build_frame(DECISIONS, decided.sort_values(["task", "item_id", "question"], ignore_index=True))


def _decide_question(rows: pd.DataFrame, method: DecisionMethod, min_answers: int) -> pd.DataFrame:
    """Return the decisions on one question: all columns but task, question and guideline."""
    ratings = build_ratings(rows)
    by_item = rows.groupby("item_id", sort=True)
    votes = [Counter(sorted(answers)) for _, answers in by_item["answer"]]
    if method == "majority":
        decided = [_find_majority(counts) for counts in votes]
    else:
        posterior = estimate_true_answers(ratings.codes, len(ratings.categories)).posterior
        decided = [
            (
                ratings.categories[int(order[-1])] if row[order[-1]] - second > TIED else None,
                float(row[order[-1]]),
            )
            for row in posterior
            for order in [np.argsort(row)]
            for second in [row[order[-2]] if len(order) > 1 else 0.0]
        ]
    enough = [counts.total() >= min_answers for counts in votes]
    return pd.DataFrame(
        {
            "item_id": ratings.items,
            "decision": [
                answer if has_enough else None
                for (answer, _), has_enough in zip(decided, enough, strict=True)
            ],
            "method": method,
            "support": [min(1.0, support) for _, support in decided],
            "votes": [json.dumps(dict(counts), ensure_ascii=False) for counts in votes],
            "annotators": [sorted(names) for _, names in by_item["annotator"]],
            "decided_at": by_item["answered_at"].max().tolist(),
        }
    )


def _list_skipped(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row without a decision for each text that nobody corrected, with the reasons for skipping it."""
    answered = set(rows.loc[rows["answer"].notna(), "item_id"])
    return pd.DataFrame(
        [
            {
                "item_id": item_id,
                "question": "",
                "decision": None,
                "method": "majority",
                "support": 0.0,
                "skipped": "; ".join(sorted(set(of_item["skipped"]))),
                "votes": "{}",
                "annotators": sorted(of_item["annotator"]),
                "decided_at": of_item["answered_at"].max(),
            }
            for item_id, of_item in rows[~rows["item_id"].isin(answered)].groupby("item_id", sort=True)
        ]
    )


def _list_unanswered(answers: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """Return a row without votes for each item that nobody answered or skipped who qualified."""
    is_item = answers["role"].isin(["item", UNANSWERED])
    names = sorted(set(answers.loc[is_item, "item_id"]) - set(judged["item_id"]))
    no_votes = {"decision": None, "method": "majority", "support": 0.0, "skipped": None, "votes": "{}"}
    return pd.DataFrame(
        [{"item_id": name, "question": "", **no_votes, "annotators": [], "decided_at": ""} for name in names]
    )


def _find_majority(votes: Counter[str]) -> tuple[str | None, float]:
    """Return the answer with most votes, None for a tie, and its share of the votes."""
    ranked = votes.most_common(2)
    is_tied = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
    return None if is_tied else ranked[0][0], ranked[0][1] / votes.total()


def _replace_resolved(corrected: pd.DataFrame | None, resolved: pd.DataFrame) -> pd.DataFrame:
    """Return the decisions on corrected texts, those of a further annotator in place of the first.

    Raises:
        DataError: an item was resolved that no one corrected.
    """
    known = set() if corrected is None else set(corrected["item_id"])
    foreign = sorted(set(resolved["item_id"]) - known)
    if corrected is None or foreign:
        raise DataError(
            f"{len(foreign)} items of task 'resolve' have no answer of task 'correct':\n"
            f"{format_items([format_value(name) for name in foreign])}\nGive the answers of both tasks."
        )
    remaining = corrected[~corrected["item_id"].isin(resolved["item_id"])]
    return pd.concat([remaining, resolved.assign(task="correct", method="resolved")])
