"""WordNet's files say which words exclude each other: antonyms, and words under one grand-hypernym."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_visual_genome import wordnet

from caramel.crepe.wordnet_thesaurus import WordNetThesaurus, load_wordnet_thesaurus
from caramel.errors import DataError


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> WordNetThesaurus:
    return load_wordnet_thesaurus(str(wordnet(tmp_path_factory.mktemp("dict"))))


def test_words_under_one_grand_hypernym_are_foils_and_synonyms_are_not(words: WordNetThesaurus) -> None:
    assert words.list_foils("obj", "dog") == ["wolf", "cat"]


def test_adjectives_have_antonyms_and_the_relatives_of_the_noun_that_they_are_if_these_are_adjectives(
    words: WordNetThesaurus,
) -> None:
    assert words.list_foils("att", "black") == ["white", "red"]
    assert words.list_foils("att", "snowy") == ["black"]


def test_a_relation_of_the_list_has_its_contrary_and_one_that_nothing_knows_has_none(
    words: WordNetThesaurus,
) -> None:
    assert words.list_foils("rel", "on top of") == ["under"]
    assert words.list_foils("rel", "glued to") == words.list_foils("obj", "gnu") == []


def test_a_word_covers_its_synonyms_and_what_is_below_it(words: WordNetThesaurus) -> None:
    assert words.is_more_general("obj", "animal", "dog")
    assert words.is_more_general("obj", "dog", "domestic dog")
    assert not words.is_more_general("obj", "dog", "animal")
    assert not words.is_more_general("obj", "cat", "dog")
    assert words.is_more_general("rel", "move", "run")
    assert words.is_more_general("obj", "gnu", "gnu")


def test_a_plural_is_looked_up_by_its_singular_and_its_foils_are_plurals(words: WordNetThesaurus) -> None:
    assert words.list_foils("obj", "dogs") == ["wolves", "cats"]
    assert words.list_foils("obj", "wolves") == ["dogs", "domestic dogs", "cats"]
    assert words.is_more_general("obj", "dog", "dogs")
    assert words.is_more_general("obj", "dogs", "dog")
    assert words.is_more_general("obj", "animals", "wolves")
    assert not words.is_more_general("obj", "cats", "dogs")


def test_a_word_of_one_letter_has_a_plural(words: WordNetThesaurus) -> None:
    assert words.list_foils("obj", "alphas") == ["ys"]


@pytest.mark.parametrize(
    ("plural", "read_as"),
    [
        ("men", "man"),  # which WordNet also has as a work force, and "shoes" as a situation
        ("shoes", "shoe"),
        ("women", "woman"),
        ("glasses", "glasses"),  # "(plural) …": they are no plural of the material
        ("gas", "gas"),  # and no plural of the nerve agent
        ("glass", "glass"),
        ("fries", "fries"),  # the first "fry" is a painter, and a proper name has no plural
    ],
)
def test_a_plural_is_its_singular_before_it_is_a_word_of_its_own(
    plural: str, read_as: str, words: WordNetThesaurus
) -> None:
    assert words._parts["obj"].find_singular(plural) == read_as


def test_men_are_persons_and_shoes_are_no_situation(words: WordNetThesaurus) -> None:
    assert words.is_more_general("obj", "person", "men")
    assert not words.is_more_general("obj", "work force", "men")
    assert not words.is_more_general("obj", "situation", "shoes")
    assert words.is_more_general("obj", "spectacles", "glasses")
    assert not words.is_more_general("obj", "glass", "glasses")
    assert words.is_more_general("obj", "french fries", "fries")
    assert not words.is_more_general("obj", "person", "fries")


def test_files_that_are_missing_or_of_another_version_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lacks index\.noun, data\.noun.*wordnet\.princeton\.edu"):
        load_wordnet_thesaurus(str(tmp_path))
    folder = wordnet(tmp_path / "dict")
    data = folder / "data.noun"
    data.write_text("x" + data.read_text())
    with pytest.raises(DataError, match=r"data\.noun.*no synset of WordNet at byte"):
        load_wordnet_thesaurus(str(folder)).list_foils("obj", "dog")
    (folder / "index.noun").write_text("dog n\n")
    with pytest.raises(DataError, match=r"index\.noun.*not an index of WordNet"):
        load_wordnet_thesaurus(str(folder)).list_foils("obj", "dog")
