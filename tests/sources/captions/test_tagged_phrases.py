"""Noun phrases are found with their heads, compounds and adjectives."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from real_models import SPACY

from caramel.errors import BackendError
from caramel.sources.captions.tagged_phrases import (
    Tagger,
    find_tagged_phrases,
    load_spacy_tagger,
    tag_by_lists,
)

needs_spacy = pytest.mark.skipif(
    find_spec("spacy") is None or find_spec(SPACY) is None, reason=f"spaCy's model {SPACY} is missing"
)
TAGGERS = [
    pytest.param(lambda: tag_by_lists, id="lists"),
    pytest.param(lambda: load_spacy_tagger(SPACY), id="spacy", marks=needs_spacy),
]


@pytest.mark.parametrize("build", TAGGERS)
def test_a_phrase_begins_with_its_determiner_and_ends_in_its_head(build) -> None:
    tag: Tagger = build()
    text = "A large bathroom sink is near two white towels, some soap and his hat."
    phrases = find_tagged_phrases(text, tag(text))
    assert [text[phrase.start : phrase.end] for phrase in phrases] == [
        "A large bathroom sink",
        "two white towels",
        "some soap",
        "his hat",
    ]
    assert text[phrases[0].compound : phrases[0].end] == "bathroom sink"
    assert [token.word for token in phrases[1].adjectives] == ["white"]
    assert phrases[3].determiners == ("his",)
    assert phrases[1].before[-1].word == "near"
    assert phrases[0].after[0].word == "is"


@pytest.mark.parametrize("build", TAGGERS)
def test_a_verb_that_no_list_knows_does_not_become_the_head(build) -> None:
    text = "A man throws a ball."
    phrases = find_tagged_phrases(text, build()(text))
    assert [text[phrase.start : phrase.end] for phrase in phrases] == ["A man", "a ball"]


@pytest.mark.parametrize("text", ["", "...", "running in of", "the red"])
def test_a_text_without_a_noun_has_no_phrase(text: str) -> None:
    assert [p for p in find_tagged_phrases(text, tag_by_lists(text)) if not p.nouns] == []


@needs_spacy
def test_a_folder_without_a_model_is_an_error(tmp_path) -> None:
    with pytest.raises(BackendError, match=r"spacy:.* cannot be loaded"):
        load_spacy_tagger(str(tmp_path))
