"""Items: what an annotator is asked about one row, and what the answer means.

An item has one or more questions. The page receives the options without their values, in an order drawn for annotator
and item, and sends back positions: neither the page nor a file name tells which option is the positive one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from caramel.errors import DataError
from caramel.io.validators import validate_text
from caramel.utils.hashing import compute_stable_keys

MAX_TEXT = 2000  # characters of an answer or a reason


@dataclass(frozen=True)
class Option:
    """One possible answer: a caption, an image, or words such as `None of them`."""

    value: str
    caption: str | None = None
    image: str | None = None  # key of the task file's table `images`
    fixed: bool = False  # keeps its position after the shuffled ones


@dataclass(frozen=True)
class Question:
    """One question: what is shown, and the options.

    With ``editable`` the answer is a text: options only fill in the field.
    """

    name: str
    text: str
    options: tuple[Option, ...]
    caption: str | None = None
    image: str | None = None
    editable: bool = False


@dataclass(frozen=True)
class Item:
    """What an annotator judges in one go: all questions about one row."""

    item_id: str
    questions: tuple[Question, ...]
    gold: str | None = None  # expected answer, in the form of the table `annotations`
    shuffled: bool = False  # whether the questions come in random order too
    key: str = ""  # what pages and exported files name the item by; given by the task file

    def list_images(self) -> set[str]:
        """Return the keys of all images that the item shows."""
        keys = {q.image for q in self.questions} | {o.image for q in self.questions for o in q.options}
        return {image for image in keys if image}


def format_item(item: Item) -> str:
    """Return the item's questions as JSON for the task file."""
    return json.dumps({"questions": [asdict(q) for q in item.questions], "shuffled": item.shuffled})


def parse_item(item_id: str, content: str, gold: str | None, key: str = "") -> Item:
    """Return the item that ``format_item`` wrote."""
    stored = json.loads(content)
    questions = tuple(
        Question(**{**q, "options": tuple(Option(**option) for option in q["options"])})
        for q in stored["questions"]
    )
    return Item(item_id, questions, gold, stored["shuffled"], key)


@dataclass(frozen=True)
class OrderedItem:
    """An item as one annotator sees it: questions and options in drawn order."""

    item: Item
    questions: tuple[Question, ...]

    def format_order(self) -> str:
        """Return the values in displayed order as JSON: column `order` of the table `annotations`."""
        orders = {q.name: [option.value for option in q.options] for q in self.questions}
        return json.dumps(next(iter(orders.values())) if len(orders) == 1 else orders)

    def describe(self) -> dict[str, Any]:
        """Return what the page gets: neither values nor the expected answer, nor the item_id, which may tell it."""
        return {
            "item_key": self.item.key,
            "questions": [
                {
                    "text": q.text,
                    "caption": q.caption,
                    "image": q.image,
                    "editable": q.editable,
                    "options": [
                        {"caption": o.caption, "image": o.image, "fixed": o.fixed} for o in q.options
                    ],
                }
                for q in self.questions
            ],
        }

    def decode_answer(self, responses: Sequence[object], where: str) -> str:
        """Return the answer in the form of the table `annotations`.

        Args:
            responses: for each question in displayed order the position of the option, from 0, or the text.

        Raises:
            DataError: the number of responses, a position or a text is wrong.
        """
        if len(responses) != len(self.questions):
            raise DataError(
                f"{where}: the item has {len(self.questions)} questions, but {len(responses)} responses."
            )
        answers = {
            question.name: _decode_response(question, response, where)
            for question, response in zip(self.questions, responses, strict=True)
        }
        return format_answer(answers)


def format_answer(answers: Mapping[str, str]) -> str:
    """Return the answer to a single question, or JSON of the answers by question."""
    return next(iter(answers.values())) if len(answers) == 1 else json.dumps(answers, sort_keys=True)


def order_item(item: Item, annotator: str, seed: int) -> OrderedItem:
    """Return the item with the order of options drawn from annotator, item and seed."""
    questions = [_order_options(question, f"{annotator}:{item.item_id}", seed) for question in item.questions]
    if item.shuffled:
        keys = compute_stable_keys([f"{annotator}:{item.item_id}:{q.name}" for q in questions], seed)
        questions = [questions[i] for i in np.argsort(keys)]
    return OrderedItem(item, tuple(questions))


def parse_expected_answer(item: Item, answer: str, where: str) -> str:
    """Return the expected answer in the form in which answers are stored, so that both can be compared as texts.

    Raises:
        DataError: it does not name an option of each question, and no others. Any text will do where it is edited.
    """
    answers: Any = {item.questions[0].name: answer}
    if len(item.questions) > 1:
        try:
            answers = json.loads(answer)
        except ValueError:
            answers = None
    if isinstance(answers, dict) and (unknown := answers.keys() - {q.name for q in item.questions}):
        raise DataError(f"{where}: item {item.item_id!r} has no question {min(unknown)!r}.")
    for question in item.questions:
        values = [option.value for option in question.options]
        value = answers.get(question.name) if isinstance(answers, dict) else None
        if not (isinstance(value, str) and (question.editable or value in values)):
            raise DataError(
                f"{where}: the expected answer {answer!r} of item {item.item_id!r} does not answer its question "
                f"{question.name!r}. Possible values: {', '.join(values)}."
            )
    return format_answer({name: " ".join(value.split()) for name, value in answers.items()})


def _order_options(question: Question, name: str, seed: int) -> Question:
    free = [option for option in question.options if not option.fixed]
    keys = compute_stable_keys([f"{name}:{question.name}:{option.value}" for option in free], seed)
    shuffled = [free[i] for i in np.argsort(keys)]
    fixed = [option for option in question.options if option.fixed]
    return Question(**{**question.__dict__, "options": (*shuffled, *fixed)})


def _decode_response(question: Question, response: object, where: str) -> str:
    if question.editable:
        if not isinstance(response, str) or not 0 < len(response.strip()) <= MAX_TEXT:
            raise DataError(f"{where}: the answer must be a text of 1 to {MAX_TEXT} characters.")
        return validate_text(" ".join(response.split()), "answer", where)
    if type(response) is not int or not 0 <= response < len(question.options):
        raise DataError(
            f"{where}: the answer must be the number of an option, 0 to {len(question.options) - 1}, not {response!r}."
        )
    return question.options[response].value
