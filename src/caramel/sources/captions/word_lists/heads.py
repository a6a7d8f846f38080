"""Which nouns of a caption a rule may take, the draws of the rules, and the reasons why a rule takes none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from caramel.sources.captions import words
from caramel.sources.captions.tagged_phrases import TaggedPhrase
from caramel.sources.captions.tokenization import Edit, Sentence, WordMatch
from caramel.sources.captions.word_lists.replacements import load_word_lists

Rng = np.random.Generator
Item = TypeVar("Item")
Rule = Callable[[Sentence, Rng], list[Edit] | str]  # the edits, or the reason why none is possible

NO_NOUN = "no known noun in the caption"
NO_ATTRIBUTE = "no known attribute in the caption"
NO_RELATION = "no known relation in the caption"
NO_TWO_NOUNS = "no two known nouns whose order matters"
NO_TWO_ATTRIBUTES = "no two known attributes of different nouns"
NO_INSERTION = "no noun phrase behind which an object can be named"
ALL_DESCRIBED = "every known noun has an attribute"
ALL_SAID = "every alternative is said of the image, or does not fit the caption"


def draw_item(rng: Rng, options: Sequence[Item]) -> Item:
    """Return one of the options, each with equal probability."""
    return options[int(rng.integers(len(options)))]


def is_mentioned(sentence: Sentence, word: str) -> bool:
    """Return whether a caption of the image has a word, in the singular or the plural."""
    forms = {word, words.get_plural(word), word.split()[-1], words.get_plural(word.split()[-1])}
    return not forms.isdisjoint(sentence.image_words)


def iter_heads(sentence: Sentence) -> Iterable[tuple[WordMatch, TaggedPhrase]]:
    """Yield the known nouns that are the whole last run of nouns of their phrases: not "sink" in "bathroom sink"."""
    ends = {phrase.end: phrase for phrase in sentence.phrases}
    for noun in list_nouns(sentence):
        phrase = ends.get(noun.end)
        if phrase and phrase.compound >= noun.start and not _is_part_of_name(sentence, phrase):
            yield noun, phrase


def list_nouns(sentence: Sentence) -> list[WordMatch]:
    """Return the known nouns from left to right, with those that only these rules know."""
    ends = {noun.end for noun in sentence.nouns}
    heads = (phrase.nouns[-1] for phrase in sentence.phrases if phrase.end not in ends)
    further = [
        WordMatch(token.start, token.end, "noun", *_list_further_forms()[token.word])
        for token in heads
        if token.word in _list_further_forms()
    ]
    return sorted([*sentence.nouns, *further])


@functools.cache
def _list_further_forms() -> dict[str, tuple[str, str, bool]]:
    """Return written form -> (noun, group, whether it is plural)."""
    groups = load_word_lists().further_nouns
    plurals = {words.get_plural(noun): (noun, group, True) for noun, group in groups.items()}
    collective = {noun: (noun, groups[noun], True) for noun in ("people", "children")}
    return plurals | {noun: (noun, group, False) for noun, group in groups.items()} | collective


def _is_part_of_name(sentence: Sentence, phrase: TaggedPhrase) -> bool:
    """Return whether a phrase has a name, or belongs to the next one: "Clydesdale horses", "a car's door"."""
    if phrase.before and any(sentence.text[token.start].isupper() for token in phrase.adjectives):
        return not sentence.text.isupper()
    return bool(phrase.after) and phrase.after[0].word in ("'s", "s", "’s")


def get_group(sentence: Sentence, phrase: TaggedPhrase) -> str:
    """Return the group of a phrase's head in the lists; "" if they do not know it."""
    return next((noun.group for noun in list_nouns(sentence) if noun.end == phrase.end), "")


def has_duplicate(sentence: Sentence, noun: WordMatch) -> bool:
    """Return whether a noun is in the caption more than once."""
    return sum(other.word == noun.word for other in list_nouns(sentence)) > 1
