"""Texts as words: how a text is cut, and when two are the same up to its form."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def tokens(text: str) -> list[str]:
    """Return the lower-case words and punctuation marks of a text."""
    return _TOKEN.findall(text.lower())


def words_only(text: str) -> tuple[str, ...]:
    """Return the lower-case words: what is left of a text up to case, space and punctuation."""
    return tuple(token for token in tokens(text) if token[0].isalnum())


def same_words(text: str) -> str:
    """Return a text that is equal for texts of equal ``words_only``, and takes a tenth of their memory."""
    return " ".join(words_only(text))
