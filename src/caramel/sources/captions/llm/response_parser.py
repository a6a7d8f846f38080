"""Parse responses of language models into answers: lenient in form, strict about the required fields."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from caramel.sources.captions.prompts.prompt_files import Answer, FieldType
from caramel.utils.text import strip_reasoning

LONGEST = 20_000  # characters of a response that are parsed
STARTS = 10  # opening braces at which parsing is tried
MOST = 40  # largest number of entries of a list
_NO_TEXT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")  # JSON escapes may encode half a surrogate pair
_YES_NO = re.compile(  # "yes or no" and "yes/no" repeat the question
    r"\W*(yes|no|true|false)\b(?!\s*(?:/|\||\bor\b|\band\b)\s*(?:yes|no|true|false)\b)", re.IGNORECASE
)


def parse_answer(text: str, fields: Mapping[str, FieldType]) -> Answer | None:
    """Return the answer in a response, or None if it contains no complete one.

    Accepted forms are JSON, also in a code fence or among other words, a Python literal, and lines ``name:
    value``. Names may be in another case, and lists may be separated by commas. White space is collapsed.
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
    end = text.rfind("}") + 1
    for start in starts[:1]:
        try:
            candidate = ast.literal_eval(text[start:end])
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, OverflowError):
            continue
        if isinstance(candidate, dict):
            yield candidate
    lines = (line.partition(":") for line in text.splitlines())
    yield {name.strip(' *-"'): value.strip().rstrip(",") for name, sign, value in lines if sign}


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
    return _clean_text(value) if isinstance(value, str) else None


def _clean_text(text: str) -> str:
    """Return a text without control characters, excess white space and surrounding quotes."""
    text = " ".join(_NO_TEXT.sub(" ", text).split())
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
