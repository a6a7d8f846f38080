"""A caption stays true when a phrase is replaced by a synonym or a more general word, and only then."""

from __future__ import annotations

import json
import os
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obliging_writer import find_change
from real_models import WORDNET
from small_visual_genome import wordnet

from caramel.errors import DataError
from caramel.interfaces.scene_graph import AtomType
from caramel.sources.captions import words
from caramel.sources.captions.lexical_entailment import BY_LISTS, LexicalEntailment

REAL = pytest.mark.skipif(not (WORDNET / "index.noun").is_file(), reason=f"no WordNet in {WORDNET}")
PARTS: tuple[AtomType, ...] = ("obj", "att", "rel")
NOUNS = sorted({noun for members in words.NOUNS.values() for noun in members})
TEXT = st.text(st.sampled_from("abcdefgos -'é"), max_size=20)


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("obj", "couch", "sofa"),
        ("obj", "dog", "animal"),
        ("obj", "dogs", "the animals"),
        ("obj", "brown dog", "dog"),
        ("obj", "woman", "lady"),
        ("obj", "a grey aeroplane", "gray airplane"),
        ("att", "large", "big"),
        ("att", "grey", "gray"),
        ("rel", "next to", "beside"),
        ("rel", "sitting beside", "near"),
        ("rel", "is on", "on top of"),
        ("rel", "dressed in", "wearing"),
        ("rel", "is parked by", "next to"),
    ],
)
def test_the_lists_know_synonyms_and_groups(part: AtomType, old: str, new: str) -> None:
    assert BY_LISTS.is_still_true(part, old, new)


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("obj", "dog", "cat"),
        ("obj", "hot dog", "animal"),
        ("obj", "teddy bear", "animal"),
        ("obj", "spoon", "kitchen"),
        ("obj", "brown dog", "wild animal"),
        ("att", "large", "small"),
        ("rel", "near", "next to"),
        ("rel", "on", "under"),
        ("rel", "on", "sitting on"),
        ("rel", "surrounded by", "next to"),
        ("rel", "covered in", "inside"),
        ("obj", "", ""),
    ],
)
def test_words_that_exclude_each_other_or_say_more_are_not_still_true(
    part: AtomType, old: str, new: str
) -> None:
    assert not BY_LISTS.is_still_true(part, old, new)


@given(st.sampled_from(PARTS), TEXT, TEXT)
def test_any_phrases_are_compared_and_a_synonym_is_one_both_ways(
    part: AtomType, first: str, second: str
) -> None:
    assert BY_LISTS.is_synonym(part, first, second) == BY_LISTS.is_synonym(part, second, first)


@given(st.sampled_from(NOUNS), st.sampled_from(["a ", "the ", ""]))
def test_a_thing_is_itself_in_either_number_and_with_any_article(noun: str, article: str) -> None:
    assert BY_LISTS.is_still_true("obj", noun, f"{article}{noun}")
    assert BY_LISTS.is_synonym("obj", noun, words.get_plural(noun))


def test_words_of_one_group_exclude_each_other() -> None:
    related = [
        pair
        for members in (*words.NOUNS.values(), *words.ADJECTIVES.values())
        for part in ("obj", "att")
        for pair in permutations(members, 2)
        if BY_LISTS.is_still_true("obj" if part == "obj" else "att", *pair)
    ]
    assert related == []


def test_contraries_exclude_each_other() -> None:
    assert [one for one in words.CONTRARY.items() if BY_LISTS.is_still_true("rel", *one)] == []


def test_wordnet_adds_synonyms_and_hypernyms(tmp_path: Path) -> None:
    lexical = LexicalEntailment(str(wordnet(tmp_path)))
    lexical.check_files()
    assert lexical.is_synonym("obj", "dog", "domestic dog")
    assert lexical.is_still_true("obj", "wolves", "animals")
    assert not lexical.is_still_true("obj", "animals", "wolves")
    assert not lexical.is_still_true("obj", "cat", "wolf")


def test_a_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder"):
        LexicalEntailment(str(tmp_path / "none")).check_files()


@REAL
@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("obj", "apple", "fruit"),
        ("obj", "tennis player", "person"),
        ("obj", "ducks", "birds"),
        ("att", "crimson", "red"),
        ("att", "massive", "large"),
        ("att", "elderly", "old"),
    ],
)
def test_the_real_wordnet_knows_what_the_lists_do_not(part: AtomType, old: str, new: str) -> None:
    assert LexicalEntailment(str(WORDNET)).is_still_true(part, old, new)
    assert not BY_LISTS.is_still_true(part, old, new)


@REAL
@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("obj", "fruit", "apple"),  # may be true, but is not said
        ("obj", "monitor", "person"),
        ("obj", "picnic table", "group"),
        ("obj", "toilet", "room"),
        ("att", "large", "giant"),
        ("att", "young", "old"),
    ],
)
def test_a_rare_sense_and_a_more_special_word_refuse_no_negative(part: AtomType, old: str, new: str) -> None:
    assert not LexicalEntailment(str(WORDNET)).is_still_true(part, old, new)


@REAL
@pytest.mark.skipif("CARAMEL_DATA" not in os.environ, reason="CARAMEL_DATA is not set")
@pytest.mark.parametrize("part", PARTS)
def test_hardly_any_released_negative_of_sugarcrepe_is_refused(part: AtomType) -> None:
    lexical, path = LexicalEntailment(str(WORDNET)), Path(os.environ["CARAMEL_DATA"])
    rows = json.loads((path / "sugarcrepe" / f"replace_{part}.json").read_text()).values()
    changes = [find_change(row["caption"], row["negative_caption"]) for row in rows]
    refused = [change for change in changes if lexical.is_still_true(part, *change)]
    assert len(refused) <= 0.002 * len(changes), refused
