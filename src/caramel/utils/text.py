"""Split texts into words, and normalise them for comparison.

A word is a run of letters, digits and the marks that belong to them: vowel signs of Hindi, Tamil or Thai,
combining accents, and the joiners within words of Persian and Hindi (Unicode's UAX 29, WB4). Words are
compared in Unicode's form NFC, so that a combining accent equals a precomposed one. Scripts without spaces
between words, such as Chinese and Thai, are not split: a run of them is one word.
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
    """Return the words of a text as spelled, in NFC. Apostrophes and hyphens separate words here."""
    text = unicodedata.normalize("NFC", text)
    return re.findall(rf"\w[\w{_select_marks(text)}]*", text)


def is_word_character(character: str) -> bool:
    """Return whether a character is a letter, a digit or a mark of one; False for the empty text."""
    return character.isalnum() or (character != "" and unicodedata.category(character)[0] == "M")


def build_character_class(text: str) -> str:
    """Return the content of a regex class ``[…]`` for the characters of this text's words.

    It includes apostrophes and hyphens.
    """
    return rf"\w{_select_marks(text)}'’-"


def build_word_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a word of this text, with apostrophes and hyphens also at its ends."""
    return re.compile(f"[{build_character_class(text)}]+")


@cache
def _build_token_pattern(marks: str) -> re.Pattern[str]:
    word = rf"\w[\w{marks}]*"
    return re.compile(rf"{word}(?:['’-]{word})*|[^\w\s]")


def _select_marks(text: str) -> str:
    """Return the text's word characters besides letters and digits, as the content of a regex class."""
    if text.isascii() or not any(character >= _FIRST_MARK and _is_mark(character) for character in text):
        return ""
    return _list_all_marks()


def _is_mark(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character)[0] == "M"


@cache
def _list_all_marks() -> str:
    """Return all marks and joiners as ranges of a regex class."""
    codes = [code for code in range(ord(_FIRST_MARK), sys.maxunicode + 1) if _is_mark(chr(code))]
    starts = [code for code in codes if not _is_mark(chr(code - 1))]
    ends = [code for code in codes if code == sys.maxunicode or not _is_mark(chr(code + 1))]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


def extract_words(text: str) -> tuple[str, ...]:
    """Return the lower-case words: the text without differences in case, space and punctuation."""
    return tuple(token for token in tokenize_text(text) if token[0].isalnum())


def normalise_text(text: str) -> str:
    """Return a form that is equal for texts with equal ``extract_words``, in a tenth of the memory."""
    return " ".join(extract_words(text))


def strip_reasoning(text: str) -> str:
    """Return the text after the last block of reasoning, which a chat template may have opened.

    A block may never end.
    """
    ends = [mark.end() for mark in _THOUGHT.finditer(text) if mark[1]]
    text = text[ends[-1] :] if ends else text
    opened = _THOUGHT.search(text)
    return (text[: opened.start()] if opened else text).strip()
