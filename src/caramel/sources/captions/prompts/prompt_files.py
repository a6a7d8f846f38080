"""Load the prompts of language models: one file for each step, ``NAME.yaml`` beside this module.

A file holds the ``task``, the ``rules``, the inputs (``given``), the fields of the ``answer``, and at least
seven worked ``examples``. Steps and temperatures follow SugarCrepe (Hsieh et al. 2023, appendix), and the
loop of paraphrases follows SugarCrepe++ (Dumpala et al. 2024, 2.1). Words and examples are this project's
own.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from caramel.interfaces.language_model import Message
from caramel.io.safe_yaml import read_yaml

FieldType = Literal["text", "phrase", "list", "yes_no", "number"]
Answer = Mapping[str, str | list[str]]  # yes_no is yes or no; a number is in digits
FOLDER = Path(__file__).parent
SHAPES: Mapping[FieldType, str] = {
    "text": '"…"',
    "phrase": '"…"',
    "list": '["…", …]',
    "yes_no": '"yes" or "no"',
    "number": '"…"',
}
MAX_TEXT, MAX_PHRASE, MAX_ITEMS = (
    1000,
    60,
    20,
)  # characters of a sentence and of a few words; entries of a list
MAX_CHOICES = 10  # largest number that chooses one of several options
TYPES: Mapping[FieldType, object] = {  # but for numbers, see ``_build_number_type``
    "text": {"type": "string", "maxLength": MAX_TEXT},
    "phrase": {"type": "string", "maxLength": MAX_PHRASE},
    "list": {"type": "array", "items": {"type": "string", "maxLength": MAX_PHRASE}, "maxItems": MAX_ITEMS},
    "yes_no": {"type": "string", "enum": ["yes", "no"]},
}
# The types without bounds are part of a prompt's version, so that it does not change with the bounds: a
# request without a schema does not depend on them.
UNBOUNDED: Mapping[FieldType, object] = {
    "text": {"type": "string"},
    "phrase": {"type": "string"},
    "list": {"type": "array", "items": {"type": "string"}},
    "yes_no": TYPES["yes_no"],
    "number": {"type": "string"},
}
LEAST = 7  # least number of examples of a prompt
SHOWN = 300  # characters of each text of a rejected answer that are repeated
AGAIN = "That does not do: "  # prefix of the message after a rejected answer
# the one prompt that writes a caption of a scene graph; all others write negatives and paraphrases
OF_GRAPHS = "say_graph"
OF_CHOICES = "choose_change"  # the one prompt that the model of stage train_writer does not learn
DIGITS = 12  # digits of the hash of a prompt's text


class FailedAnswer(NamedTuple):
    """A rejected answer, in the form in which the model should write one, and the reason."""

    answer: str
    reason: str


class Example(BaseModel):
    """A prompt's input and a correct answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    given: Mapping[str, str]
    answer: Answer
    atoms: int | None = None  # of the graph; the prompt of a number of atoms has the examples of that number


class Prompt(BaseModel):
    """One prompt, as its file defines it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    task: str
    rules: list[str]
    given: list[str]
    answer: Mapping[str, FieldType]
    examples: list[Example] = Field(min_length=LEAST)

    def format_schema_text(self, n_options: int = MAX_CHOICES) -> str:
        """Return the JSON schema of an answer, with bounds for every text, list and number of an option."""
        return self._format_schema({**TYPES, "number": _build_number_type(n_options)})

    def _format_schema(self, types: Mapping[FieldType, object]) -> str:
        schema = {
            "type": "object",
            "properties": {name: types[field_type] for name, field_type in self.answer.items()},
            "required": list(self.answer),
            "additionalProperties": False,
        }
        return json.dumps(schema)

    def compute_version(self, examples: int) -> str:
        """Return the hash of the prompt's text with this number of examples and the part for rejected answers."""
        failed = FailedAnswer("." * SHOWN, "")
        messages = self.build_messages(dict.fromkeys(self.given, ""), examples, [failed])
        contents = [messages, self._format_schema(UNBOUNDED)]
        return compute_text_version(json.dumps(contents))

    def build_messages(
        self, given: Mapping[str, str], examples: int, failed: Sequence[FailedAnswer] = ()
    ) -> tuple[Message, ...]:
        """Return the messages to the model: task, rules, examples, the input, and rejected answers."""
        shape = ", ".join(f'"{name}": {SHAPES[field_type]}' for name, field_type in self.answer.items())
        rules = "\n".join(f"- {rule}" for rule in self.rules)
        instructions = (
            f"{self.task}\n\nRules:\n{rules}\n\nAnswer with one JSON object and nothing else: {{{shape}}}"
        )
        demonstrations = [
            message
            for example in self.examples[:examples]
            for message in (
                ("user", _format_given(example.given)),
                ("assistant", format_answer(example.answer)),
            )
        ]
        again = [
            message
            for answer, reason in failed
            for message in (
                ("assistant", answer),
                ("user", f"{AGAIN}{reason}. Answer again."),
            )
        ]
        return (("system", instructions), *demonstrations, ("user", _format_given(given)), *again)


def _build_number_type(n_options: int) -> object:
    return {"type": "string", "enum": [str(number) for number in range(n_options + 1)]}


def compute_text_version(text: str) -> str:
    """Return the hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def format_answer(answer: Answer) -> str:
    """Return an answer as the model should write it."""
    return json.dumps(answer, ensure_ascii=False)


def format_failed_answer(answer: Answer) -> str:
    """Return a rejected answer as the model should have written it, with each text cut to ``SHOWN`` characters."""
    return format_answer(
        {name: value[:SHOWN] if isinstance(value, str) else value for name, value in answer.items()}
    )


def _format_given(given: Mapping[str, str]) -> str:
    return "\n".join(f"{name.capitalize()}: {words}" for name, words in given.items())


@functools.cache
def load_prompt(name: str, folder: str = "") -> Prompt:
    """Return the prompt with this name: caramel's, or that of the user's folder (``own_prompts``).

    NAME/ATOMS is NAME with the examples of a number of atoms alone.
    """
    file, _, atoms = name.partition("/")
    raw = read_yaml(Path(folder or FOLDER) / f"{file}.yaml", "" if folder else "Install caramel again.")
    prompt = Prompt.model_validate_json(json.dumps(raw))
    if not atoms:
        return prompt
    return prompt.model_copy(
        update={"examples": [example for example in prompt.examples if example.atoms == int(atoms)]}
    )


@functools.cache
def compute_prompt_version(name: str, examples: int, folder: str = "") -> str:
    """Return the hash of the whole text of a prompt with this number of examples; the folder is not part of it."""
    return load_prompt(name, folder).compute_version(examples)


def list_prompt_names() -> list[str]:
    """Return the names of all prompts, in order."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def list_learned_prompts() -> list[str]:
    """Return the names of the prompts that the model of stage ``train_writer`` learns, in order."""
    return [name for name in list_prompt_names() if name != OF_CHOICES]
