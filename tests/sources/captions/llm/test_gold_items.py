"""Texts with known answers are made from a run's own captions, by its seed, one half of them faulty."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from obliging_writer import CAPTIONS, find_change, pairs_of

from caramel.sources.captions.lexical_entailment import BY_LISTS
from caramel.sources.captions.llm.changes import PARTS
from caramel.sources.captions.llm.gold_items import OTHER_CAPTION, build_gold_items
from caramel.sources.captions.phrases import canonicalise_phrase

MANY = [
    *CAPTIONS,
    "A big couch next to a lamp.",
    "a man riding a bike",
    "Two dogs on top of a bed.",
    "Snow everywhere.",
    "Nothing but sand and wind.",
    "Is it red?",
    "Several zebras are grazing near some trees",
]


def test_the_halves_alternate_and_a_caption_gives_one_of_each() -> None:
    items = build_gold_items(pairs_of(MANY), 12, seed=2)
    assert [item.same for item in items] == [True, False] * 6
    assert [item.caption for item in items[::2]] == [item.caption for item in items[1::2]]


def test_items_depend_on_the_seed_and_not_on_the_order_of_rows() -> None:
    pairs = pairs_of(MANY)
    items = build_gold_items(pairs, 8, seed=2)
    assert build_gold_items(pairs[::-1], 8, seed=2) == items
    assert build_gold_items(pairs, 8, seed=3) != items


@given(st.integers(0, 1000))
def test_a_faulty_text_replaces_a_word_by_one_that_is_not_still_true_and_a_sound_one_says_the_same(
    seed: int,
) -> None:
    for item in build_gold_items(pairs_of(MANY), 30, seed):
        assert not item.caption.endswith("?")
        if item.same:
            assert (
                canonicalise_phrase(item.text.replace("beside", "next to"))
                == canonicalise_phrase(item.caption)
                or item.edit == "synonym"
            )
        elif item.edit != OTHER_CAPTION:
            old, new = find_change(item.caption, item.text)
            assert old
            assert new
            assert not BY_LISTS.is_still_true(PARTS[item.edit.removeprefix("replace_")], old, new)


def test_a_caption_without_known_words_has_that_of_another_image_as_its_faulty_text() -> None:
    items = build_gold_items(pairs_of(["Snow everywhere.", "Nothing but sand and wind."]), 4, seed=2)
    assert {item.edit for item in items if not item.same} == {OTHER_CAPTION}


def test_one_caption_without_known_words_and_no_caption_give_what_they_can() -> None:
    assert [item.same for item in build_gold_items(pairs_of(["Snow everywhere."]), 40, seed=2)] == [True]
    assert build_gold_items(pairs_of([]), 40, seed=2) == []


def test_a_caption_of_several_images_is_no_faulty_text_for_any_of_them_in_any_order_of_rows() -> None:
    pairs = pd.DataFrame(
        {
            "caption": ["Snow everywhere.", "Snow everywhere.", "Cold wind howling.", "Cold wind howling."],
            "image_id": ["a", "b", "b", "c"],
            "pair_id": ["1", "2", "3", "4"],
        }
    )
    for rows in (pairs, pairs[::-1]):
        assert [item.same for item in build_gold_items(rows, 4, seed=2)] == [True, True]


def test_captions_of_one_image_are_no_faulty_texts_of_each_other() -> None:
    pairs = pd.DataFrame(
        {
            "caption": ["Snow everywhere.", "Cold wind howling."],
            "image_id": ["a", "a"],
            "pair_id": ["1", "2"],
        }
    )
    assert all(item.same for item in build_gold_items(pairs, 4, seed=2))
