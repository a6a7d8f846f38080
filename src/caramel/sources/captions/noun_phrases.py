"""Find the noun phrases in which a model's proposal is edited: by a spaCy model, or by the word lists.

``CaptionEditor`` knows the words to edit, and needs where their compound begins, where phrases in "of" end, and the
number: from a parser's dependencies, or from the known nouns. ``tagged_phrases`` is for the backend ``lexicon``,
which chooses the words itself among all phrases of a caption: it needs their determiners and adjectives, and takes
only the words' tags.
"""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from caramel.sources.captions import words
from caramel.sources.captions.phrases import is_plural
from caramel.sources.captions.spacy_models import CACHED, parse_caption
from caramel.sources.captions.tokenization import scan_words
from caramel.utils.text import build_word_pattern

_OF = re.compile(r"\s+of\s+", re.IGNORECASE)


class NounPhrase(NamedTuple):
    """A noun with its compounds, text[start:end]; with the phrases in "of" behind it, text[start:outer_end]."""

    start: int
    end: int
    outer_end: int
    plural: bool


@functools.lru_cache(CACHED)
def find_noun_phrases(text: str, model: str | None) -> tuple[NounPhrase, ...]:
    """Return the noun phrases of a caption from left to right.

    Args:
        text: the caption.
        model: name or folder of a spaCy model; None: the nouns of the word lists, and runs of them as compounds.
    """
    if model is None:
        return _scan_noun_phrases(text)
    doc = parse_caption(text, model)
    return tuple(_build_noun_phrase(token) for token in doc if _is_head(token))


def _is_head(token: Any) -> bool:
    """Return whether a token is a noun that no other noun follows directly; parsers miss many compounds."""
    return _is_noun(token) and not (token.i + 1 < len(token.doc) and _is_noun(token.nbor()))


def _is_noun(token: Any) -> bool:
    return token.pos_ in ("NOUN", "PROPN")


def _build_noun_phrase(head: Any) -> NounPhrase:
    start = head
    while start.i and _is_noun(start.nbor(-1)):
        start = start.nbor(-1)
    end = head.idx + len(head)
    return NounPhrase(start.idx, end, _find_outer_end(head), head.tag_ in ("NNS", "NNPS"))


def _find_outer_end(head: Any) -> int:
    """Return where a noun ends with the phrases in "of" that follow it directly."""
    behind = head.nbor() if head.i + 1 < len(head.doc) else None
    if behind is not None and behind.lower_ == "of":
        for noun in behind.children:
            if noun.dep_ == "pobj":
                return _find_outer_end(noun)
    return int(head.idx + len(head))


def _scan_noun_phrases(text: str) -> tuple[NounPhrase, ...]:
    """Return the noun phrases by the word lists: adjacent nouns are one compound."""
    phrases: list[NounPhrase] = []
    for match in scan_words(text):
        if match.word_type != "noun":
            continue
        joined = phrases and not text[phrases[-1].end : match.start].strip()
        start = phrases.pop().start if joined else match.start
        phrases.append(NounPhrase(start, match.end, match.end, match.plural))
    return tuple(phrase._replace(outer_end=_skip_of(text, phrase.end)) for phrase in phrases)


def find_noun_phrase(text: str, start: int, end: int, model: str | None) -> NounPhrase:
    """Return the noun phrase in which text[start:end] ends; the words themselves if none is known there."""
    for phrase in find_noun_phrases(text, model):
        if phrase.start < end <= phrase.end:
            return phrase._replace(start=min(start, phrase.start))
    return NounPhrase(start, end, _skip_of(text, end), is_plural(text[start:end]))


def _skip_of(text: str, end: int) -> int:
    """Return where a phrase in "of" behind ``end`` ends: its determiner, its known attributes, and one word."""
    match = _OF.match(text, end)
    if match is None:
        return end
    attributes = {known.start for known in scan_words(text) if known.word_type == "attribute"}
    for word in build_word_pattern(text).finditer(text, match.end()):
        if word.group().lower() not in words.DETERMINERS and word.start() not in attributes:
            return word.end()
    return end
