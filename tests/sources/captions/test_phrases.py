from __future__ import annotations

import pytest

from caramel.sources.captions.phrases import (
    canonicalise_phrase,
    find_head,
    get_singular,
    is_implied,
    is_plural,
    match_number,
)


@pytest.mark.parametrize(
    ("phrase", "word_type"),
    [
        ("dog", "noun"),
        ("red dog", "noun"),
        ("sip of wine", None),
        ("plate of rice", "noun"),
        ("wooden", "attribute"),
        ("black dog", "noun"),
        ("dog toy", None),
        ("in front of", "relation"),
        ("standing next to", "relation"),
        ("sits on the bench", "noun"),
        ("", None),
    ],
)
def test_the_head_of_a_phrase_tells_its_type(phrase: str, word_type: str | None) -> None:
    head = find_head(phrase)
    assert (head and head.word_type) == word_type


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dog", "Dogs"),
        ("dog", "the puppy"),
        ("couch", "sofa"),
        ("large", "big"),
        ("dog", "animal"),
        ("car", "a vehicle"),
        ("dog", "brown dog"),
        ("next to", "beside"),
        ("under", "beneath"),
        ("zebra crossing", "zebra crossings"),
        ("dog", ""),
        ("dog", "!"),
    ],
)
def test_synonyms_groups_and_equal_heads_are_implied(old: str, new: str) -> None:
    assert is_implied(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [("dog", "cat"), ("large", "small"), ("on top of", "under"), ("running", "jumping"), ("animal", "dog")],
)
def test_what_excludes_a_phrase_is_not_implied(old: str, new: str) -> None:
    assert not is_implied(old, new)


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("dog", "dogs"),
        ("red bus", "red buses"),
        ("knife", "knives"),
        ("box", "boxes"),
        ("child", "children"),
        ("berry", "berries"),
        ("cookie", "cookies"),
        ("horse", "horses"),
        ("person", "people"),
        ("snowman", "snowmen"),
        ("human", "humans"),
        ("sweet potato", "sweet potatoes"),
        ("toe", "toes"),
        ("hero", "heroes"),
        ("wife", "wives"),
        ("red scarf", "red scarves"),
        ("leaf", "leaves"),
        ("snow", "snow"),
        ("glasses", "glasses"),
    ],
)
def test_a_phrase_gets_the_number_of_what_it_replaces(singular: str, plural: str) -> None:
    assert match_number(singular, True) == match_number(plural, True) == plural
    assert match_number(singular, False) == match_number(plural, False) == singular


@pytest.mark.parametrize("word", ["bus", "grass", "tennis", "cactus", "dress", "", "dog", "specimen"])
def test_words_in_s_may_be_singular(word: str) -> None:
    assert not is_plural(word)
    assert get_singular(word) == word


def test_a_canonical_phrase_has_neither_article_nor_plural_nor_synonym() -> None:
    assert canonicalise_phrase("The huge Sofas") == ("large", "couch")
