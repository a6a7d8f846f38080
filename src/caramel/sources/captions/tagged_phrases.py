"""Find the noun phrases of a caption, from tags of its words by the lists or by a spaCy model.

A noun phrase is a run of determiners, numbers, adjectives and nouns that ends in its head: "a large bathroom
sink" has the head "sink" and the compound "bathroom sink". The backend ``lexicon`` chooses among these phrases.
``noun_phrases`` finds those that contain given words, for the edits of a language model's proposals, and says why
there are two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from caramel.sources.captions import words
from caramel.sources.captions.spacy_models import load_spacy_model
from caramel.sources.captions.word_classes import WordClass, assign_word_classes, list_known_words
from caramel.utils.text import build_word_pattern


class Token(NamedTuple):
    """A word of a text: text[start:end], in lower case as ``word``."""

    start: int
    end: int
    word: str
    tag: WordClass


Tagger = Callable[[str], list[Token]]


@dataclass(frozen=True)
class TaggedPhrase:
    """A noun phrase: positions in the text, and its words.

    Attributes:
        start: where the phrase begins, with its determiner.
        compound: where its last run of nouns begins; an adjective is inserted here.
        end: where its head ends.
        determiners: determiners and numbers.
        adjectives: the words between determiners and nouns.
        nouns: the last run of nouns; the last one is the head.
        before: the words of the caption before the phrase, in lower case; "," marks other punctuation than "-".
        after: the words after it, likewise.
    """

    start: int
    compound: int
    end: int
    determiners: tuple[str, ...]
    adjectives: tuple[Token, ...]
    nouns: tuple[Token, ...]
    before: tuple[Token, ...]
    after: tuple[Token, ...]


INNER = frozenset(("determiner", "number", "adjective", "noun"))


def tag_by_lists(text: str) -> list[Token]:
    """Return the words of a text with classes by ``word_classes``.

    A word in -s that no list knows is a verb between a known singular noun and a determiner or preposition: "a
    man throws a ball".
    """
    spans = [(m.start(), m.end(), m.group().lower()) for m in build_word_pattern(text).finditer(text)]
    tags = assign_word_classes([word for _, _, word in spans])
    known = list_known_words()
    for i in range(1, len(spans) - 1):
        before, word, after = spans[i - 1][2], spans[i][2], tags[i + 1]
        unknown = word not in known and word.endswith("s") and not word.endswith("ss")
        if unknown and before in _list_singulars() and after in ("determiner", "preposition", "number"):
            tags[i] = "verb"
    return [Token(*span, tag) for span, tag in zip(spans, tags, strict=True)]


@functools.cache
def _list_singulars() -> frozenset[str]:
    return frozenset(noun.split()[-1] for group in words.NOUNS.values() for noun in group)


# Universal tags (spaCy's pos_) -> word class; all others count as adverbs, which no phrase contains.
UNIVERSAL: dict[str, WordClass] = {
    "NOUN": "noun",
    "PROPN": "noun",
    "ADJ": "adjective",
    "VERB": "verb",
    "AUX": "verb",
    "ADP": "preposition",
    "DET": "determiner",
    "NUM": "number",
    "PRON": "pronoun",
    "CCONJ": "conjunction",
    "SCONJ": "conjunction",
}


def load_spacy_tagger(target: str) -> Tagger:
    """Return a tagger that uses the spaCy model of a package or a folder.

    Raises:
        BackendError: spaCy or the model is missing or invalid.
    """
    model = load_spacy_model(target)
    return lambda text: [
        _build_token(token) for token in model(text) if not (token.is_punct or token.is_space)
    ]


def _build_token(token: Any) -> Token:
    word = token.lower_
    # A possessive takes the place of a determiner: "his hat".
    tag = (
        "determiner"
        if word in words.DETERMINERS and token.pos_ == "PRON"
        else UNIVERSAL.get(token.pos_, "adverb")
    )
    # The lists know colours and kitchen things better than a small model does.
    known = list_known_words().get(word)
    if known in ("adjective", "noun") and tag in ("adjective", "noun", "adverb"):
        tag = known
    return Token(token.idx, token.idx + len(token), word, tag)


def find_tagged_phrases(text: str, tokens: Sequence[Token]) -> tuple[TaggedPhrase, ...]:
    """Return the noun phrases from left to right; a run without a noun is none."""
    phrases, first = [], 0
    while first < len(tokens):
        stop = first
        while stop < len(tokens) and _is_in_phrase(text, tokens, first, stop):
            stop += 1
        run = list(tokens[first:stop])
        while run and run[-1].tag != "noun":
            run.pop()
        if run:
            phrases.append(_build_phrase(tokens, first, run))
        first = max(stop, first + 1)
    return tuple(phrases)


def _is_in_phrase(text: str, tokens: Sequence[Token], first: int, index: int) -> bool:
    """Return whether a word belongs to the phrase that begins with the first one."""
    token = tokens[index]
    if token.tag not in INNER:
        return False
    if index == first:
        return True
    adjacent = not text[tokens[index - 1].end : token.start].strip(" -")
    # A determiner or number after a noun begins the next phrase.
    starts_next = token.tag in ("determiner", "number", "adjective") and tokens[index - 1].tag == "noun"
    return adjacent and not starts_next


def _build_phrase(tokens: Sequence[Token], first: int, run: Sequence[Token]) -> TaggedPhrase:
    nouns = len(run)
    while nouns and run[nouns - 1].tag == "noun":
        nouns -= 1
    return TaggedPhrase(
        start=run[0].start,
        compound=run[nouns].start,
        end=run[-1].end,
        determiners=tuple(token.word for token in run if token.tag in ("determiner", "number")),
        adjectives=tuple(token for token in run[:nouns] if token.tag == "adjective"),
        nouns=tuple(run[nouns:]),
        before=tuple(tokens[:first]),
        after=tuple(tokens[first + len(run) :]),
    )
