"""Parts of speech of captions as a reader would tell them."""

from __future__ import annotations

import pytest

from caramel.sources.captions.word_classes import assign_word_classes

SHORT = {"n": "noun", "v": "verb", "a": "adjective", "r": "adverb", "p": "preposition", "d": "determiner"}
SHORT |= {"o": "pronoun", "c": "conjunction", "m": "number"}


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("a small red box is to the left of the tree", "daanvpdnpdn"),
        ("two dogs slowly running behind a moving bus", "mnrvpdan"),
        ("there is a tall building and a parked car with 3 wheels", "ovdancdanpmn"),
        ("an elderly man who holds his painting", "danovdn"),
        ("σκυλί", "n"),
        ("", ""),
    ],
)
def test_each_word_has_its_class(text: str, classes: str) -> None:
    assert assign_word_classes(text.split()) == [SHORT[sign] for sign in classes]
