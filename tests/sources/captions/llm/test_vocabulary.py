"""A proposed word must exist: in WordNet, in the word lists, or in a spaCy model."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from real_models import SPACY, WORDNET

from caramel.errors import DataError
from caramel.sources.captions.llm.changes import Change, normalise_words
from caramel.sources.captions.llm.checks import REASONS, Bounds, evaluate_negative
from caramel.sources.captions.llm.proposals import find_change_problem
from caramel.sources.captions.llm.vocabulary import PARTS_OF_SPEECH, Vocabulary

CAPTION = "A man in a red shirt tossing a white frisbee."
SAID = frozenset(normalise_words(CAPTION))
real = pytest.mark.skipif(not WORDNET.is_dir(), reason="WordNet is missing: apt-get install wordnet-base")


@pytest.fixture
def small(tmp_path: Path) -> Vocabulary:
    """Return the vocabulary of a few words in WordNet's form, whose files begin with a licence."""
    lemmas = {"noun": "dog\ncar_park\nsnowboard\nberry", "verb": "sit\nrace\ncarry", "adj": "happy\nred"}
    irregular = {"noun": "geese goose", "verb": "sat sit"}
    for name in PARTS_OF_SPEECH:
        rows = [f"{lemma} n 1 0" for lemma in lemmas.get(name, "").split()]
        (tmp_path / f"index.{name}").write_text("\n".join(["  1 licence okapi", *rows, ""]))
        (tmp_path / f"{name}.exc").write_text(irregular.get(name, "") + "\n")
    return Vocabulary(str(tmp_path), None)


@pytest.mark.parametrize(
    "phrase",
    [
        *("dog", "dogs", "berries", "geese", "sitting", "sat", "racing", "raced", "carried", "happier"),
        *("car park", "dog's", "dogs'", "them", "against", "red-dog", "snow-board", "3d", "TV", "frisbee"),
        *("iPad", "a Kodak dog"),
        "",
    ],
)
def test_words_in_any_form_names_and_compounds_of_known_words_pass(small: Vocabulary, phrase: str) -> None:
    assert small.list_unknown_words(phrase, SAID) == []


@pytest.mark.parametrize(
    ("phrase", "unknown"),
    [
        ("okapi", ["okapi"]),
        ("skettle", ["skettle"]),
        ("small_silver_keyboard", ["small_silver_keyboard"]),
        ("a goldendog dog", ["goldendog"]),
        ("SKETTLE DOG", ["skettle"]),
        ("red-skettled", ["red-skettled"]),
    ],
)
def test_words_that_no_dictionary_has_are_listed(small: Vocabulary, phrase: str, unknown: list[str]) -> None:
    assert small.list_unknown_words(phrase, SAID) == unknown


def test_a_proposal_with_an_unknown_word_is_refused_for_that_reason_before_and_after_it_is_composed(
    small: Vocabulary,
) -> None:
    change, bounds = Change("replace_obj", "man", "skettle"), Bounds(2.0, 0.999, 1, 0.3, 0.5, 0.5)
    text = CAPTION.replace("man", "skettle")
    required = ("known_words",)
    assert find_change_problem(CAPTION, change, SAID, required, vocabulary=small) == REASONS["known_words"]
    assert evaluate_negative(CAPTION, text, change, SAID, bounds, vocabulary=small).known_words is False
    swap = Change("swap_obj", "man", "frisbee")
    assert evaluate_negative(CAPTION, CAPTION, swap, SAID, bounds, vocabulary=small).known_words is None
    assert evaluate_negative(CAPTION, text, change, SAID, bounds).known_words is None


def test_a_folder_that_lacks_a_file_is_an_error_with_its_name(small: Vocabulary) -> None:
    Path(small.wordnet, "verb.exc").unlink()
    with pytest.raises(DataError, match=r"verb\.exc"):
        small.list_unknown_words("dog", ())


@real
@pytest.mark.parametrize(
    "word",
    [
        "gourdered",
        "nomadist",
        "goldenghosted",
        "waskaded",
        "nachbühle",
        "godoomsan",
        "toweric",
        "humore",
        "mirable",
        "ravensbreen",
        "steelcrete",
        "skettle",
        "quarterglass",
        "small_silver_keyboard",
    ],
)
def test_words_that_a_small_model_invented_are_unknown(word: str) -> None:
    assert Vocabulary(str(WORDNET), None).list_unknown_words(f"a {word} man", SAID) == [word]


@real
@pytest.mark.parametrize("spacy_model", [None, SPACY])
def test_fewer_than_one_in_200_released_negatives_have_an_unknown_word(spacy_model: str | None) -> None:
    if spacy_model is not None and find_spec(spacy_model) is None:
        pytest.skip("spaCy's model is missing: run `make dev`")
    if "CARAMEL_DATA" not in os.environ:
        pytest.skip("CARAMEL_DATA is not set: SugarCrepe's files are missing")
    vocabulary = Vocabulary(str(WORDNET), spacy_model)
    files = Path(os.environ["CARAMEL_DATA"], "sugarcrepe")
    paths = [*files.glob("replace_*.json"), *files.glob("add_*.json")]
    rows = [row for path in paths for row in json.loads(path.read_text(encoding="utf-8")).values()]
    unknown = [
        words
        for row in rows
        if (
            words := vocabulary.list_unknown_words(
                row["negative_caption"], {*normalise_words(row["caption"])}
            )
        )
    ]
    assert len(rows) > 6000
    assert len(unknown) / len(rows) < 0.005
