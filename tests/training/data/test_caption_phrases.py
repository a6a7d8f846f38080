"""Phrases of a caption: its noun phrases, and those that a negative changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.training.data.caption_phrases import find_changed_phrases, find_noun_phrases


def test_noun_phrases_are_listed_once_from_left_to_right_and_places_are_none() -> None:
    assert find_noun_phrases("A man in a blue shirt next to a man.") == ["A man", "a blue shirt", "a man"]
    assert find_noun_phrases("A dog to the left of a dog and a dog.") == ["A dog", "a dog"]
    assert find_noun_phrases("Running quickly.") == []


@pytest.mark.parametrize(
    ("caption", "negative", "unit", "foil"),
    [
        ("A red cat on a mat.", "A black cat on a mat.", "A red cat", "A black cat"),
        ("A cat on a mat.", "A cat under a mat.", "A cat on a mat", "A cat under a mat"),
        ("A red cat and a black dog.", "A black cat and a red dog.", *2 * [None]),
        ("A cat with a dog to its left.", "A dog with a cat to its left.", *2 * [None]),
        (
            "There is a cat with a dog and a hat.",
            "There is a dog with a cat and a hat.",
            "a cat with a dog and a hat",
            "a dog with a cat and a hat",
        ),
        (
            "A boy with a kite in the sky.",
            "A boy with a kite in the orange sky.",
            "the sky",
            "the orange sky",
        ),
        ("A cat.", "A cat and a dog.", "A cat", "A cat and a dog"),
        ("A cat.", "a cat", "A cat.", "a cat"),
        ("It sleeps.", "It runs.", "It sleeps", "It runs"),
    ],
)
def test_a_unit_is_widened_to_whole_noun_phrases(caption, negative, unit, foil) -> None:
    whole = (caption.rstrip("."), negative.rstrip("."))
    assert find_changed_phrases(caption, negative) == ((unit, foil) if unit else whole)


words = st.lists(st.sampled_from(["a", "red", "cat", "dog", "on", "the", "left", "runs"]), max_size=8)


@given(words, words)
def test_what_stands_before_and_behind_the_phrases_is_equal_in_both_texts(caption, negative) -> None:
    texts = " ".join(caption), " ".join(negative)
    phrases = find_changed_phrases(*texts)
    assert all(phrase in text for phrase, text in zip(phrases, texts, strict=True))
    if caption and negative:
        assert all(phrases)
        places = [range(len(text)) for text in texts]
        rests = [
            {(text[:i], text[i + len(phrase) :]) for i in place if text.startswith(phrase, i)}
            for text, phrase, place in zip(texts, phrases, places, strict=True)
        ]
        assert rests[0] & rests[1]
