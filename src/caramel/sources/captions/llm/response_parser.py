"""Parse responses of language models into answers: lenient in form, strict about the required fields.

What a model did not finish is no answer: the repairs close brackets, but never a string.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from caramel.sources.captions.prompts.prompt_files import MAX_PHRASE, Answer, FieldType
from caramel.utils.text import strip_reasoning

LONGEST = 20_000  # characters of a response that are parsed
STARTS = 10  # opening braces at which parsing is tried
MOST = 40  # largest number of entries of a list
CLOSERS = {"{": "}", "[": "]"}
_PIECE = re.compile(
    r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^"{}\[\]]+|"', re.DOTALL
)  # a string, a bracket, or what is between
_NO_TEXT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")  # JSON escapes may encode half a surrogate pair
_NUMBER = re.compile(r"\W*(\d{1,3})\b", re.ASCII)
_YES_NO = re.compile(  # "yes or no" and "yes/no" repeat the question
    r"\W*(yes|no|true|false)\b(?!\s*(?:/|\||\bor\b|\band\b)\s*(?:yes|no|true|false)\b)", re.IGNORECASE
)


def parse_answer(text: str, fields: Mapping[str, FieldType]) -> Answer | None:
    """Return the answer in a response, or None if it contains no complete one.

    Accepted forms are JSON, also in a code fence, among other words, or with the commonest slips in its
    brackets and commas, a Python literal, and lines ``name: value``. Names may be in another case, and lists may be separated by commas. White space is collapsed.
    """
    text = strip_reasoning(text)[:LONGEST]
    for candidate in _iter_objects(text):
        named = {name.strip().lower(): value for name, value in candidate.items() if isinstance(name, str)}
        answer = {name: _convert_value(named.get(name), field_type) for name, field_type in fields.items()}
        if None not in answer.values():
            return {name: value for name, value in answer.items() if value is not None}
    return None


def _iter_objects(text: str) -> Iterator[Mapping[Any, Any]]:
    """Yield the objects that a text may contain, the most certain first."""
    decoder = json.JSONDecoder()
    starts = [match.start() for match in re.finditer(r"\{", text)][:STARTS]
    for start in starts:
        try:
            candidate = decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue
        if isinstance(candidate, dict):
            yield candidate
    for start in starts[:1]:
        try:
            candidate = json.loads(_repair_brackets(text[start:]))
        except (ValueError, RecursionError):
            continue
        if isinstance(candidate, dict):
            yield candidate
    end = text.rfind("}") + 1
    for start in starts[:1]:
        try:
            candidate = ast.literal_eval(text[start:end])
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, OverflowError):
            continue
        if isinstance(candidate, dict):
            yield candidate
    lines = (line.partition(":") for line in text.splitlines())
    named = {name.strip(' *-"'): value.strip().rstrip(",") for name, sign, value in lines if sign}
    yield {name: value for name, value in named.items() if _is_closed(value)}


def _repair_brackets(text: str) -> str:
    """Return the object at the start of a text with each bracket closed by its own kind, and no comma before it.

    A missing bracket at the end is added for objects alone: a list without an end may lack entries.

    Raises:
        ValueError: a string or a list has no end.
    """
    pieces: list[str] = []
    still_open: list[str] = []
    for piece in _PIECE.findall(text):
        if piece in CLOSERS:
            still_open.append(piece)
        elif piece in ("}", "]"):
            pieces[-1] = pieces[-1].rstrip().removesuffix(",")
            piece = CLOSERS[still_open.pop()]
        pieces.append(piece)
        if not still_open:
            return "".join(pieces)
    if pieces[-1] == '"' or "[" in still_open:
        raise ValueError("a string or a list without an end")
    return f"{''.join(pieces).rstrip().removesuffix(',')}{'}' * len(still_open)}"


def _is_closed(value: str) -> bool:
    """Return whether a value that begins with a quote or a bracket also ends with one."""
    return not value.startswith(('"', "[")) or (
        len(value) > 1 and value.endswith('"' if value[0] == '"' else "]")
    )


def _convert_value(value: Any, field_type: FieldType) -> str | list[str] | None:
    """Return a field's value in the type of the field; None if it cannot be converted."""
    if field_type == "list":
        if isinstance(value, str):
            inner = value.strip().removeprefix("[").removesuffix("]")
            value = [part.strip(" \"'") for part in inner.split(",")] if value.strip() else []
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            return None
        return list(dict.fromkeys(filter(None, (_clean_text(part) for part in value[:MOST]))))
    if field_type == "yes_no":
        if isinstance(value, bool):
            return "yes" if value else "no"
        match = _YES_NO.match(value) if isinstance(value, str) else None
        return {"yes": "yes", "true": "yes", "no": "no", "false": "no"}[match[1].lower()] if match else None
    if field_type == "number":
        number = _NUMBER.match(str(value)) if isinstance(value, (str, int)) else None
        return str(int(number[1])) if number and not isinstance(value, bool) else None
    text = _clean_text(value) if isinstance(value, str) else None
    return None if text is not None and field_type == "phrase" and len(text) > MAX_PHRASE else text


def _clean_text(text: str) -> str:
    """Return a text without control characters, excess white space and surrounding quotes."""
    text = " ".join(_NO_TEXT.sub(" ", text).split())
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
