"""Texts as words: how a text is cut, and when two are the same up to its form.

A word is a run of letters, digits and the marks that belong to them: vowel signs of Hindi, Tamil or Thai, accents that
are characters of their own, and the joiners within words of Persian and Hindi (Unicode's UAX 29, WB4). Words are
compared in Unicode's form NFC, so that an accent that is a character of its own is the same as one that is not.
Scripts that put no space between words, such as Chinese and Thai, are not cut into words: a run of them is one.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

_THOUGHT = re.compile(r"<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE)
_JOINERS = "\u200c\u200d"
_FIRST_MARK = "\u0300"


def tokenize_text(text: str) -> list[str]:
    """Return the lower-case words and punctuation marks of a text."""
    text = unicodedata.normalize("NFC", text.lower())
    matches: list[str] = _build_token_pattern(_select_marks(text)).findall(text)
    return matches


def split_words(text: str) -> list[str]:
    """Return the words of a text as they are spelled, in NFC; apostrophes and hyphens part words here."""
    text = unicodedata.normalize("NFC", text)
    return re.findall(rf"\w[\w{_select_marks(text)}]*", text)


def is_word_character(character: str) -> bool:
    """Return whether a character is a letter, a digit, or a mark that belongs to one; the empty text is not."""
    return character.isalnum() or (character != "" and unicodedata.category(character)[0] == "M")


def build_character_class(text: str) -> str:
    """Return what a class ``[…]`` of the characters of this text's words holds, with apostrophes and hyphens."""
    return rf"\w{_select_marks(text)}'’-"


def build_word_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a word of this text with its apostrophes and hyphens, where these begin or end it, too."""
    return re.compile(f"[{build_character_class(text)}]+")


@cache
def _build_token_pattern(marks: str) -> re.Pattern[str]:
    word = rf"\w[\w{marks}]*"
    return re.compile(rf"{word}(?:['’-]{word})*|[^\w\s]")


def _select_marks(text: str) -> str:
    """Return what the class of a word's characters has beside letters and digits, for a text that has any of them."""
    if text.isascii() or not any(character >= _FIRST_MARK and _is_mark(character) for character in text):
        return ""
    return _list_all_marks()


def _is_mark(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character)[0] == "M"


@cache
def _list_all_marks() -> str:
    """Return all marks and joiners as ranges of a class."""
    codes = [code for code in range(ord(_FIRST_MARK), sys.maxunicode + 1) if _is_mark(chr(code))]
    starts = [code for code in codes if not _is_mark(chr(code - 1))]
    ends = [code for code in codes if code == sys.maxunicode or not _is_mark(chr(code + 1))]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


def extract_words(text: str) -> tuple[str, ...]:
    """Return the lower-case words: what is left of a text up to case, space and punctuation."""
    return tuple(token for token in tokenize_text(text) if token[0].isalnum())


def normalise_text(text: str) -> str:
    """Return a text that is equal for texts of equal ``words_only``, and takes a tenth of their memory."""
    return " ".join(extract_words(text))


def strip_reasoning(text: str) -> str:
    """Return what stands behind the last thought aloud, which a chat template may have opened; one may never end."""
    ends = [mark.end() for mark in _THOUGHT.finditer(text) if mark[1]]
    text = text[ends[-1] :] if ends else text
    opened = _THOUGHT.search(text)
    return (text[: opened.start()] if opened else text).strip()
