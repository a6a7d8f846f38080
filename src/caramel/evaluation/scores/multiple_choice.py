"""Ask a chat model multiple-choice questions: it gets an image and captions, and names one caption.

As in SugarCrepe++ (Dumpala et al. 2024, 3.3 and G.1), the model gets two true captions P and the negative N, and
finds the one that is not true. There are three options, or four with ``none`` as the last. If the instances have no
paraphrase, the model finds the true one of P and N, from two options or three. Every order of P and N is asked (P1
always comes before P2) in every wording, so that the spread over both can be measured. A model whose spec names a
published wording (``published_wordings``) is asked in that wording and its one order alone, after the examples that
the wording shows (``demonstrations``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import pandas as pd

from caramel.benchmarks.content import IMAGES_HASH, TEXTS_HASH, hash_images, hash_texts
from caramel.benchmarks.image_files import read_encoded_images
from caramel.errors import BackendError
from caramel.evaluation.scores.choice_parser import parse_choice
from caramel.evaluation.scores.demonstrations import Demonstration, select_demonstrations
from caramel.evaluation.scores.encoding import RunConfig, compute_model_code_version
from caramel.evaluation.scores.prompt_templates import ORDERS, WORDINGS, Form, build_prompt, list_captions
from caramel.evaluation.scores.published_wordings import (
    PUBLISHED_WORDINGS,
    build_published_prompt,
    replace_numbers,
)
from caramel.evaluation.scores.response_cache import ask_questions
from caramel.interfaces.benchmark import ABSENT, Comparisons, ImageFile, Task
from caramel.interfaces.model import Chooser, Question, Reply
from caramel.io.keys import compute_pair_key
from caramel.models.embedding_cache import EmbeddingCache
from caramel.models.specs import open_model
from caramel.schemas.evaluation import ANSWERS
from caramel.schemas.io import build_frame

RIGHT: Mapping[Form, str] = {"odd": "N", "true": "P"}
ImageRole = Literal["positive", "negative"]


class _ChoiceQuestion(NamedTuple):
    """One question about an instance."""

    instance: Mapping[Any, Any]  # row of the task
    image_role: ImageRole
    image: int  # index among the task's images
    form: Form
    order: str
    wording: str
    captions: tuple[str, ...]
    examples: tuple[Demonstration, ...] = ()

    @property
    def none(self) -> bool:
        return self.order.endswith("0")

    @property
    def prompt(self) -> str:
        if self.wording in PUBLISHED_WORDINGS:
            return build_published_prompt(self.wording, self.captions)
        return build_prompt(self.form, self.wording, self.captions, none=self.none)

    def determine_outcome(self, reply: Reply | None) -> str:
        """Return the outcome of a response, one of ``OUTCOMES``; a truncated response counts as unparseable."""
        if reply is None or reply.text is None:
            return "failed"
        if reply.is_cut:
            return "unparseable"
        text = replace_numbers(reply.text) if self.wording in PUBLISHED_WORDINGS else reply.text
        index = parse_choice(text, self.captions, form=self.form, none=self.none)
        if index is None:
            return "unparseable"
        return {RIGHT[self.form]: "right", "0": "none"}.get(self.order[index], "wrong")


def collect_answers(
    task: Task, image_keys: Sequence[bytes], run: RunConfig, *, benchmark: str
) -> pd.DataFrame:
    """Return table ``answers`` of one model on one task; cached responses are not requested again.

    If any instance lacks a paraphrase, the paraphrases of all instances are left out. Questions about the negative
    image of an instance are asked too, with the negative caption as P. They are not asked if paraphrases are used,
    because two of the three captions would be false of that image.

    Args:
        task: comparisons of captions.
        image_keys: content key of each of the task's images, from ``check_images``.
        run: settings of the model's forward passes.
        benchmark: value of column ``benchmark``.

    Raises:
        BackendError: the task does not compare captions, or the endpoint does not answer.
        DataError: an image cannot be read.
    """
    model = open_model(run.model, run.compute.device, run.compute.precision)
    assert isinstance(model, Chooser)
    form, wording = _choose_form(task), getattr(model, "wording", "")
    rows = _get_comparison_rows(task, benchmark)
    examples = select_demonstrations(rows, wording) if wording else {}
    choice_questions = [
        question._replace(examples=examples.get(question.instance["instance_id"], ()))
        for question in _iter_questions(rows, form, wording)
    ]
    keys = [_compute_key(question, image_keys) for question in choice_questions]
    questions = {
        key: _build_question(question, task.images)
        for key, question in zip(keys, choice_questions, strict=True)
    }
    store = EmbeddingCache(run.store, model.identity, compute_model_code_version(run.model))
    replies = ask_questions(model, questions, store.folder / "replies")
    hashes: dict[str, tuple[str, str | None]] = dict(
        zip(
            task.rows["instance_id"],
            zip(hash_texts(task), hash_images(task, image_keys), strict=True),
            strict=True,
        )
    )
    answered = [(question, replies.get(key)) for key, question in zip(keys, choice_questions, strict=True)]
    if task.left_out is not None:
        names = task.left_out.rows["instance_id"]
        hashes |= {name: (text, None) for name, text in zip(names, task.left_out.texts_hash, strict=True)}
        answered += [(question, None) for question in _iter_questions(task.left_out.rows, form, wording)]
    answers = [
        {
            "instance_id": question.instance["instance_id"],
            "model": model.name,
            "benchmark": benchmark,
            "image_id": question.instance["image_id"],
            "subsets": question.instance["subsets"],
            **dict(zip((TEXTS_HASH, IMAGES_HASH), hashes[question.instance["instance_id"]], strict=True)),
            "image": question.image_role,
            "n_options": len(question.order),
            "order": question.order,
            "wording": question.wording,
            "outcome": question.determine_outcome(reply),
            "reply": reply.text if reply else None,
            "finish_reason": reply.finish_reason if reply else None,
        }
        for question, reply in answered
    ]
    return build_frame(ANSWERS, answers)


def _compute_key(question: _ChoiceQuestion, image_keys: Sequence[bytes]) -> str:
    """Return the key of a question's response: the hash of image and prompt, and of its examples if it has any."""
    examples = [
        (image_keys[example.image].hex(), example.prompt, example.reply) for example in question.examples
    ]
    prompt = json.dumps([question.prompt, examples]) if examples else question.prompt
    return compute_pair_key(image_keys[question.image], prompt).hex()


def _build_question(question: _ChoiceQuestion, images: Sequence[ImageFile]) -> Question:
    examples = tuple(
        (Question(example.prompt, partial(_read_image, images[example.image])), example.reply)
        for example in question.examples
    )
    return Question(question.prompt, partial(_read_image, images[question.image]), examples)


def drop_missing_images(answers: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Return the answers without those on instances whose images are missing, which were not asked."""
    if task.left_out is None:
        return answers
    return answers[~answers["instance_id"].isin(task.left_out.rows["instance_id"])]


def _choose_form(task: Task) -> Form:
    """Return ``odd`` (which caption is false?) if all instances have a paraphrase, else ``true`` (which is true?)."""
    parts = [task.rows, *([] if task.left_out is None else [task.left_out.rows])]
    return "odd" if all("caption2" in rows and rows["caption2"].notna().all() for rows in parts) else "true"


def can_ask_choices(task: Task) -> bool:
    """Return whether all instances are an image, a caption and a negative caption."""
    if not isinstance(task, Comparisons):
        return False
    rows = task.rows
    lacking = rows[["caption", "negative_caption"]].isna().to_numpy().any() or (rows["image"] == ABSENT).any()
    return not lacking


def _get_comparison_rows(task: Task, benchmark: str) -> pd.DataFrame:
    """Return the task's rows if all instances are an image, a caption and a negative caption."""
    if not can_ask_choices(task):
        raise BackendError(
            f"Benchmark {benchmark!r} does not support multiple choice: some of its instances are not an image, a "
            f"caption and a negative caption. Leave out the benchmark or the chat model."
        )
    return task.rows


def can_ask_wording(task: Task, wording: str) -> bool:
    """Return whether a published wording fits a task: it needs two true captions and the negative."""
    return can_ask_choices(task) and _choose_form(task) == "odd" and wording in PUBLISHED_WORDINGS


def _iter_questions(rows: pd.DataFrame, form: Form, published: str) -> Iterator[_ChoiceQuestion]:
    """Yield all questions about all instances; with a published wording, its question alone."""
    if published:
        wordings, orders = [published], [PUBLISHED_WORDINGS[published].order]
    else:
        wordings, orders = [*WORDINGS[form]], [order + none for none in ("", "0") for order in ORDERS[form]]
    for row in rows.to_dict("records"):
        caption, negative_caption = row["caption"], row["negative_caption"]
        pools: list[tuple[ImageRole, int, list[str], str]]
        if form == "odd":
            pools = [("positive", row["image"], [caption, row["caption2"]], negative_caption)]
        else:
            pools = [("positive", row["image"], [caption], negative_caption)]
            if row["negative_image"] != ABSENT:
                pools.append(("negative", row["negative_image"], [negative_caption], caption))
        for image_role, image, true, negative in pools:
            for order in orders:
                captions = list_captions(order, true, negative)
                for wording in wordings:
                    yield _ChoiceQuestion(row, image_role, image, form, order, wording, captions)


def _read_image(image: ImageFile) -> bytes:
    return read_encoded_images([image])[0]
