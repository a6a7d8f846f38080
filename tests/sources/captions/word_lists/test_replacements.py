"""The word lists name only nouns that the rules know, and no list changes a word into itself."""

from __future__ import annotations

import numpy as np

from caramel.crepe import noun_lists
from caramel.crepe.noun_lists import ALIKE
from caramel.crepe.parsers.caption_phrases import PLURAL_ONLY
from caramel.sources.captions import words
from caramel.sources.captions.phrases import MASS, PLURAL
from caramel.sources.captions.tokenization import apply_edits, parse_sentence
from caramel.sources.captions.word_lists.replacements import load_word_lists
from caramel.sources.captions.word_lists.rules import RULES

LISTS = load_word_lists()
GROUPS = {noun: group for group, nouns in words.NOUNS.items() for noun in nouns} | dict(LISTS.further_nouns)


def test_each_list_is_of_known_nouns_or_of_groups_with_an_asterisk() -> None:
    groups = {f"*{group}" for group in words.NOUNS}
    assert set(LISTS.replacements) <= set(GROUPS)
    assert set(LISTS.bound) <= set(GROUPS)
    assert set(LISTS.companions) | set(LISTS.added) <= set(GROUPS) | groups
    assert set(LISTS.fitting) <= set(words.ADJECTIVES)
    assert set(LISTS.further_nouns.values()) <= set(words.NOUNS)


def test_every_known_noun_can_take_an_attribute() -> None:
    assert [noun for noun, group in GROUPS.items() if not {noun, f"*{group}"} & set(LISTS.added)] == []


def test_no_noun_is_replaced_by_itself() -> None:
    assert [noun for noun, others in LISTS.replacements.items() if noun in others] == []


def test_no_noun_is_replaced_by_one_that_people_take_for_it() -> None:
    pairs = [(noun, other) for noun, others in LISTS.replacements.items() for other in others]
    assert [pair for pair in pairs if any(set(pair) <= set(group) for group in ALIKE)] == []


def test_a_noun_without_a_plural_is_in_one_list_alone() -> None:
    assert LISTS.countable_mass.isdisjoint(MASS)
    assert noun_lists.MASS > MASS
    assert PLURAL_ONLY < PLURAL


def test_every_noun_of_the_lists_is_described_in_a_caption_of_its_own() -> None:
    for noun in set(GROUPS) - {"orange"}:  # alone it is a colour
        text = f"There is {words.choose_article(noun)} {noun} here."
        edits = RULES["add_att"](parse_sentence(text, ()), np.random.default_rng(0))
        assert not isinstance(edits, str), noun
        assert apply_edits(text, edits).endswith(f" {noun} here.")
