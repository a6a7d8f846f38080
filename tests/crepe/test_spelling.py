"""Descriptions are corrected to words that other descriptions have, where one is clearly meant."""

from __future__ import annotations

import sys

import pytest

from caramel.crepe.spelling import create_spelling_corrector
from caramel.errors import BackendError

DESCRIPTIONS = [
    *["a white dog on the blue skis"] * 10,
    *["a couple near a counter"] * 10,
    *["the white building"] * 20,
    "a whte dog",
    *["a railcar"] * 9,
    *["the dog is houses"] * 9,
]


@pytest.mark.parametrize(
    ("written", "corrected"),
    [
        ("a whte dog", "a white dog"),
        ("the bluw skiis.", "the blue skis."),
        ("a buidling", "a building"),
        ("a couer", "a couer"),  # couple is two edits away, and cover is no word of these descriptions
        ("a railcar on rails", "a railcar on rails"),  # no English word, but often written
        (
            "Bluw dogs, kitesurfing and a t-shrt",
            "Bluw dogs, kitesurfing and a t-shrt",
        ),  # names, forms, compounds
        ("a dgo", "a dgo"),  # too short: dog, ago, do
        ("", ""),
    ],
)
def test_only_a_clear_mistake_is_corrected(written: str, corrected: str) -> None:
    assert create_spelling_corrector(DESCRIPTIONS)(written) == corrected


def test_a_word_that_two_corrections_fit_stays() -> None:
    correct = create_spelling_corrector([*["some skies"] * 20, *["some skis"] * 20])
    assert correct("some skiis") == "some skiis"


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spellchecker", None)
    with pytest.raises(BackendError, match=r"pip install 'caramel\[spelling\]'"):
        create_spelling_corrector([])
