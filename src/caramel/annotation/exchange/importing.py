"""Read answers that were given elsewhere: pages of annotators, CSV, Label Studio's export.

All answers of a file are stored, or none. Reading a file twice changes nothing.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from caramel.annotation.accounts import check_pseudonym
from caramel.annotation.answers import UNORDERED
from caramel.annotation.exchange import csv_files, label_studio
from caramel.annotation.exchange.html_page import ANSWERS_FORMAT
from caramel.annotation.items import OrderedItem
from caramel.annotation.server import read_seconds
from caramel.annotation.store import Answer, AnswerStore
from caramel.errors import DataError
from caramel.io.readers import iter_csv_rows, read_json
from caramel.io.validators import read_list_field, read_text_field


def import_answers(store: AnswerStore, path: Path) -> tuple[int, int]:
    """Store the answers of a file; return how many are new, and how many it holds.

    The format is recognised: a page's JSON, Label Studio's JSON, or CSV by the suffix.

    Raises:
        DataError: the file is of no known format, of another task or version of the instructions, or a row is wrong; the
            message names it.
    """
    if path.suffix == ".csv":
        answers = [*_iter_csv_answers(store, path)]
    else:
        content = read_json(path)
        read = _iter_label_studio_answers if isinstance(content, list) else _iter_page_answers
        # Stored in the order in which they were given; the sort is stable.
        answers = sorted(read(store, content, str(path)), key=lambda answer: answer.answered_at or "")
    return store.add_answers(answers), len(answers)


def _iter_page_answers(store: AnswerStore, content: Any, where: str) -> Iterator[Answer]:
    """Yield the answers of a page that `html_page` wrote."""
    if not isinstance(content, dict) or content.get("format") != ANSWERS_FORMAT:
        raise DataError(f"{where!r} is neither a file of answers nor an export of Label Studio.")
    _check_version(store, content.get("task"), content.get("version"), where)
    if content.get("task_id") != store.settings.task_id:
        raise DataError(
            f"{where}: answers to another task file than {str(store.path)!r}. Import them into the one that the page was "
            "exported from."
        )
    annotator = check_pseudonym(content.get("annotator"), where)
    for number, row in enumerate(read_list_field(content, "answers", where), 1):
        at = f"{where}, answer {number}"
        item = _get_item(store, read_text_field(row, "item_key", at), annotator, at)
        skipped = row.get("skipped")
        yield _build_answer(
            item,
            annotator,
            responses=None if skipped is not None else read_list_field(row, "responses", at),
            skipped=skipped,
            seconds=row.get("seconds"),
            answered_at=read_text_field(row, "answered_at", at),
            where=at,
        )


def _iter_csv_answers(store: AnswerStore, path: Path) -> Iterator[Answer]:
    """Yield the answers of a CSV file that `csv_files` wrote and annotators filled in. Empty rows are left out.

    The file has one time for all answers and does not tell their order, which the ids therefore disclaim.
    """
    columns = ("task", "guideline", "item_key", "question", *csv_files.ANSWER_COLUMNS)
    rows: dict[tuple[str, str], dict[str, tuple[str, Mapping[str, str]]]] = defaultdict(dict)
    for where, row in iter_csv_rows(path, columns):
        if not row["annotator"].strip():
            if row["answer"].strip() or row["skipped"].strip():
                raise DataError(f"{where}: the row has an answer but no annotator. Nothing was imported.")
            continue
        if row["answer"].strip() and row["skipped"].strip():
            raise DataError(
                f"{where}: the row has an answer and a reason for skipping it. Remove one of them."
            )
        _check_version(store, row["task"], row["guideline"], where)
        questions = rows[row["item_key"], check_pseudonym(row["annotator"].strip(), where)]
        if row["question"] in questions:
            raise DataError(f"{where}: the answer to question {row['question']!r} occurs twice.")
        questions[row["question"]] = where, row
    at = datetime.fromtimestamp(path.stat().st_mtime).astimezone().isoformat(timespec="seconds")
    for (item_key, annotator), answers in rows.items():
        where = next(iter(answers.values()))[0]
        item = _get_item(store, item_key, csv_files.READER, where)
        if missing := {q.name for q in item.questions} ^ set(answers):
            raise DataError(f"{where}: item {item_key!r} lacks or has unknown questions: {sorted(missing)}.")
        cells = [answers[question.name][1] for question in item.questions]
        skipped = next((cell["skipped"].strip() for cell in cells if cell["skipped"].strip()), None)
        seconds = [_parse_seconds(cell["seconds"], where) for cell in cells]
        yield _build_answer(
            item,
            annotator,
            responses=[
                _parse_response(cell["answer"], q.editable)
                for q, cell in zip(item.questions, cells, strict=True)
            ],
            skipped=skipped,
            seconds=None if None in seconds else sum(filter(None, seconds)),
            answered_at=at,
            where=where,
            prefix=UNORDERED,
        )


def _iter_label_studio_answers(store: AnswerStore, content: Any, where: str) -> Iterator[Answer]:
    """Yield the answers of Label Studio's JSON export. Annotators are `ls-` and their number, without names."""
    for number, task in enumerate(content, 1):
        at = f"{where}, task {number}"
        data: Any = task.get("data") if isinstance(task, dict) else None
        item_key = read_text_field(data, "item_key", at)
        _check_version(store, data.get("task"), data.get("guideline"), at)
        item = _get_item(store, item_key, label_studio.READER, at)
        for row in read_list_field(task, "annotations", at):
            if not isinstance(row, dict):
                raise DataError(f"{at}: an annotation must be a JSON object, not {type(row).__name__}.")
            author = row.get("completed_by")
            author = author.get("id") if isinstance(author, dict) else author
            if isinstance(author, bool) or not isinstance(author, int | str):
                raise DataError(f"{at}: `completed_by` must be the number of an annotator, not {author!r}.")
            annotator = check_pseudonym(f"ls-{author}", at)
            skipped = "skipped in Label Studio" if row.get("was_cancelled") else None
            yield _build_answer(
                item,
                annotator,
                responses=None if skipped else _read_results(item, read_list_field(row, "result", at), at),
                skipped=skipped,
                seconds=row.get("lead_time"),
                answered_at=read_text_field(row, "created_at", at),
                where=at,
            )


def _read_results(item: OrderedItem, results: list[Any], where: str) -> list[object]:
    """Return the responses in an annotation of Label Studio, by question."""
    responses: dict[str, object] = {}
    for result in results:
        value = result.get("value") if isinstance(result, dict) else None
        values = value.get("choices", value.get("text")) if isinstance(value, dict) else None
        if not isinstance(values, list) or len(values) != 1:
            raise DataError(f"{where}: a result must hold one choice or one text, not {value!r:.200}.")
        responses[str(result.get("from_name"))] = values[0]
    return [
        _parse_response(str(responses.get(f"answer_{number}", "")), question.editable)
        for number, question in enumerate(item.questions, 1)
    ]


def _get_item(store: AnswerStore, item_key: str, reader: str, where: str) -> OrderedItem:
    try:
        return store.get_item(item_key, reader)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def _check_version(store: AnswerStore, task: object, guideline: object, where: str) -> None:
    settings = store.settings
    if task != settings.task:
        raise DataError(
            f"{where}: answers to task {task!r}; {str(store.path)!r} is of task {settings.task!r}."
        )
    if guideline != settings.guideline_hash:
        raise DataError(
            f"{where}: answers under version {guideline!r} of the instructions; {str(store.path)!r} has version "
            f"{settings.guideline_hash!r}. Import them into the task file that they were exported from."
        )


def _build_answer(
    item: OrderedItem,
    annotator: str,
    *,
    responses: list[Any] | None,
    skipped: object,
    seconds: object,
    answered_at: str,
    where: str,
    prefix: str = "import-",
) -> Answer:
    """Return an answer with an id that is a function of its content: a second import adds nothing.

    Args:
        prefix: start of the id.
    """
    if skipped is not None and (not isinstance(skipped, str) or not skipped.strip()):
        raise DataError(f"{where}: `skipped` must be a reason, not {skipped!r}.")
    answer = item.decode_answer(responses or [], where) if skipped is None else None
    try:
        at = datetime.fromisoformat(answered_at)
    except ValueError as error:
        raise DataError(f"{where}: {answered_at!r} is no time in ISO 8601.") from error
    if at.tzinfo is None:
        raise DataError(f"{where}: the time {answered_at!r} lacks its time zone.")
    name = f"{annotator}\0{item.item.item_id}\0{answer}\0{skipped}"
    return Answer(
        answer_id=f"{prefix}{hashlib.sha256(name.encode()).hexdigest()[:32]}",
        item_id=item.item.item_id,
        annotator=annotator,
        answer=answer,
        skipped=skipped,
        seconds=read_seconds(seconds, where),
        order=item.format_order(),
        answered_at=at.astimezone(UTC).isoformat(timespec="milliseconds"),
    )


def _parse_response(text: str, editable: bool) -> object:
    """Return the position of a numbered option, from 0, or the text. What is no number is refused later, with its item."""
    if editable:
        return text
    return int(text) - 1 if re.fullmatch(r"\s*[0-9]{1,3}\s*", text) else text


def _parse_seconds(text: str, where: str) -> float | None:
    if not text.strip():
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    return read_seconds(seconds, where)
