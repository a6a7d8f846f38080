"""Texts as words: how a text is cut, and when two are the same up to its form."""

from __future__ import annotations

import re

_THOUGHT = re.compile(r"<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE)
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


def unthought(text: str) -> str:
    """Return what stands behind the last thought aloud, which a chat template may have opened; one may never end."""
    ends = [mark.end() for mark in _THOUGHT.finditer(text) if mark[1]]
    text = text[ends[-1] :] if ends else text
    opened = _THOUGHT.search(text)
    return (text[: opened.start()] if opened else text).strip()
