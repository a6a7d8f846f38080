"""Find the noun phrases of a caption: by a spaCy model, or by the word lists where none is named."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from caramel.errors import BackendError
from caramel.sources.captions import words
from caramel.sources.captions.phrases import is_plural
from caramel.sources.captions.tokenization import scan_words
from caramel.utils.text import build_word_pattern

TRIED = "A man is on a horse."
CACHED = 4096  # captions whose analysis stays in memory; the scripts of one caption run together
_OF = re.compile(r"\s+of\s+", re.IGNORECASE)


class NounPhrase(NamedTuple):
    """A noun with its compounds, text[start:end]; with the phrases in "of" behind it, text[start:outer_end]."""

    start: int
    end: int
    outer_end: int
    plural: bool


@functools.cache
def load_spacy_model(target: str) -> Any:
    """Return the spaCy model of a package or a folder.

    Raises:
        BackendError: spaCy or the model is missing or invalid, or the model finds no dependencies.
    """
    try:
        import spacy
    except ImportError as error:
        raise BackendError(
            f"The spaCy model {target!r} needs spaCy: pip install 'caramel[spacy]', and a model."
        ) from error
    try:
        model = spacy.load(target)
        finds = model(TRIED).has_annotation("DEP")
    except (OSError, ValueError) as error:
        raise BackendError(
            f"spacy:{target} cannot be loaded: {error} Give the name of an installed model, or its folder."
        ) from error
    if not finds:
        raise BackendError(
            f"spacy:{target} finds no dependencies: {', '.join(model.pipe_names) or 'it is empty'}."
        )
    return model


@functools.lru_cache(CACHED)
def parse_caption(text: str, model: str) -> Any:
    """Return spaCy's ``Doc`` of a caption."""
    return load_spacy_model(model)(text)


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
