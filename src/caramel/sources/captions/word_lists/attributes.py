"""Replace, exchange and add attributes of nouns by word lists (subtypes ``*_att`` of SugarCrepe)."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

from caramel.sources.captions import words
from caramel.sources.captions.tagged_phrases import TaggedPhrase
from caramel.sources.captions.tokenization import Edit, Sentence, WordMatch
from caramel.sources.captions.word_lists.heads import (
    ALL_DESCRIBED,
    ALL_SAID,
    NO_ATTRIBUTE,
    NO_NOUN,
    NO_TWO_ATTRIBUTES,
    Rng,
    draw_item,
    get_group,
    iter_heads,
)
from caramel.sources.captions.word_lists.replacements import load_word_lists

EXCHANGED = frozenset(("colour", "material", "pattern"))  # groups whose attributes one noun can have


class Attribute(NamedTuple):
    """An attribute of a noun phrase: its place in the text, its word and its group in the lists."""

    start: int
    end: int
    word: str
    group: str
    phrase: TaggedPhrase


def _list_attributes(sentence: Sentence) -> list[Attribute]:
    """Return the known attributes of noun phrases.

    Left out are those that "and" joins to another adjective, and phrases with two of one group: "black and white".
    """
    attributes = []
    for phrase in sentence.phrases:
        joined = (
            not phrase.determiners
            and len(phrase.before) > 1
            and phrase.before[-1].word in ("and", "or", "with")
        )
        if joined and phrase.before[-2].tag == "adjective":
            continue
        known = [(token, named) for token in phrase.adjectives if (named := _build_groups().get(token.word))]
        groups = [group for _, (_, group) in known]
        attributes += [
            Attribute(token.start, token.end, word, group, phrase)
            for token, (word, group) in known
            if groups.count(group) == 1
        ]
    return attributes


@functools.cache
def _build_groups() -> dict[str, tuple[str, str]]:
    """Return written form -> (attribute, group) of the single words that are attributes."""
    groups = {word: (word, group) for group, members in words.ADJECTIVES.items() for word in members}
    groups |= {word: (word, "colour") for word in load_word_lists().further_colours}
    return groups | {form: groups[word] for form, word in words.SAME_ADJECTIVE.items()}


def replace_att(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Replace one attribute by one that excludes it and fits the noun."""
    attributes = _list_attributes(sentence)
    if not attributes:
        return NO_ATTRIBUTE
    options = [
        (attribute, word)
        for attribute in attributes
        for word in words.ADJECTIVES[attribute.group]
        if _is_fitting(sentence, word, attribute.group, attribute.phrase) and word not in sentence.image_words
    ]
    if not options:
        return ALL_SAID
    attribute, word = draw_item(rng, options)
    return [Edit(attribute.start, attribute.end, word)]


def _is_fitting(sentence: Sentence, word: str, group: str, phrase: TaggedPhrase) -> bool:
    """Return whether the noun of a phrase may have an attribute in a photograph."""
    head, known = phrase.nouns[-1].word, get_group(sentence, phrase)
    if group == "colour":
        fixed = any(token.word in load_word_lists().fixed_colour for token in phrase.nouns) or known == "food"
        return not fixed and (known != "animal" or word in load_word_lists().colours_of_animals)
    if group == "size":
        return head not in load_word_lists().never_sized
    if group == "material" and word not in load_word_lists().materials:
        return False
    return group not in load_word_lists().fitting or head in load_word_lists().fitting[group]


def swap_att(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Exchange two attributes between nouns that may both have both."""
    pairs = [(a, b) for a, b in combinations(_list_attributes(sentence), 2) if _can_exchange(sentence, a, b)]
    if not pairs:
        return NO_TWO_ATTRIBUTES
    a, b = draw_item(rng, pairs)
    texts = [sentence.text[one.start : one.end] for one in (a, b)]
    lower = texts[0] if sentence.text[: a.start].strip() or texts[0].isupper() else texts[0].lower()
    return [Edit(a.start, a.end, texts[1]), Edit(b.start, b.end, lower)]


def _can_exchange(sentence: Sentence, a: Attribute, b: Attribute) -> bool:
    """Return whether two attributes of different nouns differ, and each fits the other's noun."""
    same_noun = a.phrase.nouns[-1].word == b.phrase.nouns[-1].word
    groups = {a.group, b.group}
    if same_noun or a.word == b.word or (len(groups) > 1 and not groups <= EXCHANGED):
        return False
    known_words = [{token.word for token in one.phrase.adjectives} for one in (a, b)]
    crossed = (b.word not in known_words[0]) and (a.word not in known_words[1])
    return (
        crossed
        and _is_fitting(sentence, b.word, b.group, a.phrase)
        and _is_fitting(sentence, a.word, a.group, b.phrase)
    )


def add_att(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Add an uncommon attribute to a noun without a known attribute, before its compound."""
    heads = list(iter_heads(sentence))
    if not heads:
        return NO_NOUN
    described = {phrase for _, phrase in _iter_described(sentence)}
    bare = [(noun, phrase) for noun, phrase in heads if phrase not in described and not _is_cut_off(phrase)]
    if not bare:
        return ALL_DESCRIBED
    options = [
        (min(noun.start, phrase.compound), phrase.end, word)
        for noun, phrase in bare
        for word in load_word_lists().added.get(noun.word) or load_word_lists().added[f"*{noun.group}"]
        if word not in sentence.image_words
    ]
    if not options:
        return ALL_SAID
    start, end, word = draw_item(rng, options)
    old = sentence.text[start:end]
    first = not sentence.text[:start].strip() and old.istitle()
    return [Edit(start, end, f"{word} {old.lower() if first else old}")]


def _is_cut_off(phrase: TaggedPhrase) -> bool:
    """Return whether an adverb without a determiner stands before the nouns: "grizzly bear" is read as such."""
    return not phrase.determiners and bool(phrase.before) and phrase.before[-1].tag == "adverb"


def _iter_described(sentence: Sentence) -> Iterable[tuple[WordMatch, TaggedPhrase]]:
    """Yield the attributes with the phrases that contain them."""
    for attribute in sentence.attributes:
        for phrase in sentence.phrases:
            if phrase.start <= attribute.start < phrase.end:
                yield attribute, phrase
