from __future__ import annotations

from pathlib import Path

import pytest
from real_models import SPACY

from caramel.errors import BackendError
from caramel.sources.captions.noun_phrases import find_noun_phrase, find_noun_phrases, load_spacy_model


@pytest.fixture
def model() -> str:
    pytest.importorskip("spacy")
    return str(pytest.importorskip(SPACY, reason=f"{SPACY} is not installed: make dev").__name__)


def list_texts(text: str, model: str | None) -> list[tuple[str, str]]:
    """Return each noun phrase, without and with its phrases in "of"."""
    phrases = find_noun_phrases(text, model)
    return [(text[one.start : one.end], text[one.start : one.outer_end]) for one in phrases]


def test_without_a_model_adjacent_words_of_the_lists_are_compounds() -> None:
    text = "A bathroom sink and two plates of green salad."
    assert list_texts(text, None) == [
        ("bathroom sink", "bathroom sink"),
        ("plates", "plates of green salad"),
        ("salad", "salad"),
    ]
    assert [one.plural for one in find_noun_phrases(text, None)] == [False, True, False]


def test_a_spacy_model_finds_compounds_and_phrases_in_of_of_any_words(model: str) -> None:
    text = "A pile of snowboard boots lies beside the ski lift."
    assert list_texts(text, model) == [
        ("pile", "pile of snowboard boots"),
        ("snowboard boots", "snowboard boots"),
        ("ski lift", "ski lift"),
    ]


@pytest.mark.parametrize(("text", "plural"), [("A quokka on a rock", False), ("Two quokkas", True)])
def test_words_of_no_known_phrase_are_a_phrase_by_themselves(text: str, plural: bool) -> None:
    start = text.index("quokka")
    end = start + len("quokkas" if plural else "quokka")
    phrase = find_noun_phrase(text, start, end, None)
    assert (phrase.start, phrase.end, phrase.outer_end, phrase.plural) == (start, end, end, plural)


def test_what_is_no_spacy_model_is_refused(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    with pytest.raises(BackendError, match=r"no_such_model cannot be loaded: .* Give the name"):
        load_spacy_model("no_such_model")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(BackendError, match="finds no dependencies: it is empty"):
        load_spacy_model(str(tmp_path / "blank"))
