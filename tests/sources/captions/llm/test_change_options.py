"""The changes that a caption allows are those of its scene graph and of a thesaurus."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from real_models import SPACY, WORDNET

from caramel.errors import BackendError
from caramel.sources.captions.llm.change_options import ChangeOptions
from caramel.sources.captions.llm.changes import Change
from caramel.sources.captions.llm.workflows import SUBTYPES

real = pytest.mark.skipif(
    find_spec(SPACY) is None or not WORDNET.is_dir(),
    reason="spaCy's model or WordNet is missing: `make dev`, apt-get install wordnet-base",
)
OPTIONS = ChangeOptions(SPACY, str(WORDNET))


def pairs_of(caption: str, subtype: str, options: ChangeOptions = OPTIONS) -> set[tuple[str, str]]:
    changes = [change for place in options.list_changes(caption, subtype) for change in place]
    assert all(isinstance(change, Change) and change.subtype == subtype for change in changes)
    return {(change.old, change.new) for change in changes}


@real
@pytest.mark.parametrize(
    ("subtype", "caption", "change"),
    [
        ("replace_obj", "Two men wearing ties cross the street.", ("ties", "coats")),
        ("replace_obj", "A black cat sits on a mat.", ("cat", "dog")),
        ("replace_att", "A small sheep stands under a wooden post.", ("wooden", "metal")),
        ("replace_rel", "A cake sitting on top of a table.", ("sitting on top of", "sitting under")),
        ("swap_obj", "A red chair in front of a laptop.", ("chair", "laptop")),
        ("swap_obj", "A man sitting behind a cat.", ("man", "cat")),
        ("swap_obj", "A woman feeding a man.", ("woman", "man")),
        ("swap_att", "A red car in front of a white bus.", ("red", "white")),
        ("swap_att", "A red car in front of a wooden bench.", ("red", "wooden")),
        ("add_obj", "A dog runs on the beach.", ("dog", "cat")),
        ("add_att", "A dog runs on the beach.", ("dog", "muddy")),
    ],
)
def test_a_caption_allows(subtype: str, caption: str, change: tuple[str, str]) -> None:
    assert change in pairs_of(caption, subtype)


@real
@pytest.mark.parametrize(
    ("subtype", "caption"),
    [
        ("swap_obj", "A man holding a kite."),  # of two kinds
        ("swap_obj", "A group of people."),
        ("swap_obj", "A man pets a cat."),
        ("swap_obj", "A cake sitting on a plate."),
        ("swap_obj", "Two dogs behind a cat."),  # of two numbers
        ("swap_obj", "A cat and a dog."),  # no relation between them
        ("swap_obj", "A dog behind a cat and another dog."),  # named twice
        ("swap_att", "A big red ball."),  # of one object
        ("swap_att", "A red car and a small bus."),  # of two kinds
        ("swap_att", "A red car and a red bus."),
        ("add_att", "A brown dog."),  # it may be that already
        ("replace_obj", "Hmm."),
    ],
)
def test_a_caption_allows_none(subtype: str, caption: str) -> None:
    assert pairs_of(caption, subtype) == set()


@real
def test_without_wordnet_the_word_lists_are_the_thesaurus() -> None:
    lists = ChangeOptions(SPACY, None)
    assert ("cat", "dog") in pairs_of("A black cat sits on a mat.", "replace_obj", lists)
    assert ("red", "white") in pairs_of("A red car in front of a white bus.", "swap_att", lists)


@real
@pytest.mark.parametrize("caption", ["", "?!", "THE", "a " * 300, "\u0000", "A CAT ON A MAT"])
@pytest.mark.parametrize("subtype", SUBTYPES)
def test_an_odd_caption_is_no_error(caption: str, subtype: str) -> None:
    assert isinstance(OPTIONS.list_changes(caption, subtype), list)


def test_a_missing_spacy_model_is_an_error() -> None:
    pytest.importorskip("spacy")
    with pytest.raises(BackendError, match="no_such_model"):
        ChangeOptions("no_such_model", None).list_changes("A cat.", "replace_obj")
