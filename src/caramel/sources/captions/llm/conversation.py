"""Scripts: generators that yield prompts for a language model, one after the other, and receive its responses.

A script knows neither the model nor the cache. Its result depends on the responses alone, so it can be
rebuilt from them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from caramel.interfaces.language_model import ModelOutput
from caramel.sources.captions.lexical_entailment import BY_LISTS, LexicalEntailment
from caramel.sources.captions.llm.changes import Change
from caramel.sources.captions.llm.checks import Bounds, Verdict
from caramel.sources.captions.llm.response_parser import parse_answer
from caramel.sources.captions.llm.vocabulary import Vocabulary
from caramel.sources.captions.prompts.prompt_files import (
    MAX_CHOICES,
    Answer,
    FailedAnswer,
    load_prompt,
)

NO_REPLY = "the model gave no reply"
EMPTY = "the model's answer is empty"
CUT = "the model's answer broke off"
MALFORMED = "the model's answer is not of the asked form"
TRIES = 3  # requests for one prompt, until the answer has the required form
RETRY = 0.7  # temperature of repeated requests: 0 would give the same answer, and more spoils the form


class PromptInput(NamedTuple):
    """The inputs of one prompt to a model."""

    prompt: str
    given: Mapping[str, str]
    attempt: int  # at the same text, from 1
    temperature: float
    failed: tuple[FailedAnswer, ...] = ()
    retry: int = 0  # how many answers to the same input were malformed
    n_options: int = MAX_CHOICES  # largest number that an answer may name


class Draft(NamedTuple):
    """The text of one attempt, its verdict, and the reason why it was rejected ("" if it was accepted).

    ``corrects`` is the reason against the draft that it corrects; "" if it was written anew.
    """

    attempt: int
    text: str
    verdict: Verdict
    reason: str = ""
    corrects: str = ""


class Outcome(NamedTuple):
    """The result of a script: a text, or the reason why there is none."""

    text: str | None
    attempt: int
    reason: str
    drafts: tuple[Draft, ...]


class Editor(Protocol):
    """Composes the text of a change without a model, see ``llm.caption_editor``."""

    def apply_change(self, caption: str, change: Change) -> tuple[Change, str] | str:
        """Return the change as it was applied and the text, or why the change cannot be applied."""
        ...

    def fit_phrase(self, text: str, phrase: str, part: str) -> str:
        """Return the part of a phrase of a text that is an ``obj``, ``att`` or ``rel``; "" if there is none."""
        ...


class ChangeLister(Protocol):
    """Lists the changes that a caption allows, see ``llm.change_options``."""

    def list_changes(self, caption: str, subtype: str) -> list[list[Change]]:
        """Return the changes of a subtype, one list for each place in the caption."""
        ...


@dataclass(frozen=True)
class ScriptRules:
    """Rules of scripts: number of attempts at a text, required verdicts, thresholds, and sources of verdicts.

    ``validate``: whether the model validates its own texts. ``judges``: names of the models that judge texts,
    see ``llm.judge``. ``editor``: composes the negatives by edits; None: the model composes them. ``lexical``: tells
    synonyms and more general words. ``vocabulary``: tells which words exist; None: words are not looked up.
    ``change_lister``: lists the changes from which the model chooses; None: the model proposes them.
    ``correct_paraphrases``: most corrections in a row of a paraphrase; each is an attempt.
    """

    max_attempts: int
    required: tuple[str, ...]
    bounds: Bounds
    validate: bool
    judges: tuple[str, ...] = ()
    editor: Editor | None = None
    lexical: LexicalEntailment = BY_LISTS
    vocabulary: Vocabulary | None = None
    change_lister: ChangeLister | None = None
    correct_paraphrases: int = 0


Script = Generator[PromptInput, ModelOutput, Outcome]


def ask_until_valid(
    prompt_input: PromptInput, tries: int = TRIES
) -> Generator[PromptInput, ModelOutput, Answer | str]:
    """Repeat a prompt until an answer has its form; return the answer, or the reason why there is none.

    An answer of another form is not included in the next prompt: models repeat the form that they see.
    """
    reason = MALFORMED
    for retry in range(tries):
        if retry:
            prompt_input = prompt_input._replace(retry=retry, temperature=RETRY)
        output = yield prompt_input
        if output.text is None:
            return NO_REPLY
        answer = parse_answer(output.text, load_prompt(prompt_input.prompt).answer)
        if answer is not None:
            return answer
        reason = EMPTY if not output.text.strip() else CUT if output.finish_reason == "length" else MALFORMED
    return reason


def get_text_field(answer: Answer, name: str) -> str:
    """Return a text field of an answer."""
    value = answer[name]
    assert isinstance(value, str), name
    return value
