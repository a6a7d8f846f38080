"""What is asked of a language model, one question after the other, as a generator that gives questions and gets replies.

Such a script knows neither the model nor where replies are kept: it is a function of the replies alone, so that what
it makes is rebuilt from them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from caramel.interfaces.language_model import ModelOutput
from caramel.sources.captions.llm.checks import Bounds, Verdict
from caramel.sources.captions.llm.response_parser import parse_answer
from caramel.sources.captions.prompts.prompt_files import Answer, FailedAnswer, load_prompt

NO_REPLY = "the model gave no reply"
EMPTY = "the model's answer is empty"
CUT = "the model's answer broke off"
MALFORMED = "the model's answer is not of the asked form"
TRIES = 3  # at one question, until its answer is of the form
FORM = "it is not the one JSON object that was asked for"


class PromptInput(NamedTuple):
    """One question to a model."""

    prompt: str
    given: Mapping[str, str]
    attempt: int  # at the same text, from 1
    temperature: float
    failed: tuple[FailedAnswer, ...] = ()


class Draft(NamedTuple):
    """What was written at one attempt, and what is thought of it; why it was refused, "" if it was not."""

    attempt: int
    text: str
    verdict: Verdict
    reason: str = ""


class Outcome(NamedTuple):
    """What came of a script: a text, or the reason why there is none."""

    text: str | None
    attempt: int
    reason: str
    drafts: tuple[Draft, ...]


@dataclass(frozen=True)
class ScriptRules:
    """What scripts go by: attempts at a text at most, required verdicts, their thresholds, and who is asked for some.

    ``validate``: whether the model itself is. ``judges``: names of the models that judge texts, see ``judging``.
    """

    max_attempts: int
    required: tuple[str, ...]
    bounds: Bounds
    validate: bool
    judges: tuple[str, ...] = ()


Script = Generator[PromptInput, ModelOutput, Outcome]


def ask_until_valid(
    prompt_input: PromptInput, tries: int = TRIES
) -> Generator[PromptInput, ModelOutput, Answer | str]:
    """Ask until an answer of the prompt's form comes; return it, or the reason why there is none.

    What is not of the form is shown to the model when it is asked again.
    """
    reason = MALFORMED
    for _ in range(tries):
        output = yield prompt_input
        if output.text is None:
            return NO_REPLY
        answer = parse_answer(output.text, load_prompt(prompt_input.prompt).answer)
        if answer is not None:
            return answer
        reason = EMPTY if not output.text.strip() else CUT if output.finish_reason == "length" else MALFORMED
        prompt_input = prompt_input._replace(failed=(*prompt_input.failed, FailedAnswer(output.text, FORM)))
    return reason


def get_text_field(answer: Answer, name: str) -> str:
    """Return a text of an answer."""
    value = answer[name]
    assert isinstance(value, str), name
    return value
