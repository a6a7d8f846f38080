"""Tell whether a phrase names a thing, an attribute or a relation: by the word lists, and by a spaCy model."""

from __future__ import annotations

from typing import Any

from caramel.sources.captions import words
from caramel.sources.captions.noun_phrases import parse_caption
from caramel.sources.captions.phrases import find_head, iter_spans

KINDS = {"obj": "noun", "att": "attribute", "rel": "relation"}  # part of a subtype -> type in the word lists
# Tags of the Penn Treebank. JJR and JJS are left out: "a biggest dog".
ATTRIBUTE_TAGS = frozenset(("JJ", "VBN", "VBG"))
NOUNS = frozenset(("NOUN", "PROPN"))  # universal parts of speech
RELATION_WORDS = frozenset(("VERB", "AUX", "ADP", "ADV", "SCONJ", "PART"))
SIDES = frozenset(
    ("front", "left", "right", "top", "side", "back", "middle", "bottom", "edge")
)  # "in front of"
# Words tagged as adjectives that count, or refer to other things.
QUANTIFIERS = words.DETERMINERS.union(
    ("few", "other", "more", "most", "own", "same", "such", "various", "multiple", "different")
)


def fit_phrase(text: str, phrase: str, part: str, model: str | None) -> str:
    """Return the part of a phrase that has the wanted type, in lower case; "" if it has another one.

    A language model often names a relation with what it leads to: "holding a plate" becomes "holding". Without a
    spaCy model only the word lists judge, and nothing is cut.

    Args:
        text: a text with the phrase.
        phrase: a thing, an attribute or a relation.
        part: the wanted type: ``obj``, ``att`` or ``rel``.
        model: name or folder of a spaCy model, or None.
    """
    phrase, span = phrase.lower(), next(iter_spans(text, phrase), None)
    known = find_head(phrase)
    listed = known is not None and known.word_type == KINDS[part]
    if model is None or span is None:
        return phrase if listed or known is None else ""
    doc = parse_caption(text, model)
    tokens = [token for token in doc if span[0] <= token.idx < span[1]]
    cut = {"obj": _cut_object, "att": _cut_attribute, "rel": _cut_relation}[part](tokens)
    if not cut:
        return phrase if listed else ""
    return text[cut[0].idx : cut[-1].idx + len(cut[-1])].lower()


def _cut_object(tokens: list[Any]) -> list[Any]:
    """Return the tokens of a thing without determiners and numbers before it; none if its head is no noun."""
    while tokens and tokens[0].pos_ in ("DET", "NUM"):
        tokens = tokens[1:]
    end = next((i for i, token in enumerate(tokens) if i and token.lower_ == "of"), len(tokens))
    return tokens if tokens and tokens[end - 1].pos_ in NOUNS else []


def _cut_attribute(tokens: list[Any]) -> list[Any]:
    """Return the tokens of an attribute without the noun behind it; none if there is no attribute."""
    while tokens and tokens[-1].pos_ in NOUNS:
        tokens = tokens[:-1]
    good = tokens and tokens[-1].tag_ in ATTRIBUTE_TAGS and tokens[-1].lower_ not in QUANTIFIERS
    return tokens if good else []


def _cut_relation(tokens: list[Any]) -> list[Any]:
    """Return the tokens of a relation up to its first thing; none if it begins with another kind of word."""
    if not tokens or tokens[0].pos_ not in RELATION_WORDS:
        return []
    first_nouns = (
        i for i, token in enumerate(tokens) if token.pos_ in {*NOUNS, "PRON"} and token.lower_ not in SIDES
    )
    tokens = tokens[: next(first_nouns, len(tokens))]
    while tokens[-1].pos_ not in RELATION_WORDS:
        tokens = tokens[:-1]
    return tokens
