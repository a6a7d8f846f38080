"""The inflection of the words of the word lists, and of others."""

from __future__ import annotations

import pytest

from caramel.sources.captions.words import choose_article


@pytest.mark.parametrize(
    "word",
    [
        *(
            "apple",
            "old dog",
            "hourglass",
            "honest man",
            "heir",
            "unidentified dog",
            "unusual hat",
            "urban scene",
        ),
        *("SUV", "MRI scan", "LED light", "X-ray", "x-ray", "e-bike", "8-year-old", "80s car", "11th place"),
        *("18-wheeler", "1800s house", "umbrella", "usher"),
    ],
)
def test_words_that_sound_like_a_vowel_have_an(word: str) -> None:
    assert choose_article(word) == "an"


@pytest.mark.parametrize(
    "word",
    [
        *("dog", "hat", "European city", "eucalyptus", "unicorn", "uniform", "used car", "utensil", "urinal"),
        *(
            "TV",
            "UFO",
            "ufo",
            "t-shirt",
            "U-turn",
            "one-legged man",
            "1-year-old",
            "110-pound dog",
            "NASA hat",
        ),
        *("180-degree turn", "", "?"),
    ],
)
def test_words_that_sound_like_a_consonant_have_a(word: str) -> None:
    assert choose_article(word) == "a"
