"""Words that demean people are out: by WordNet's glosses, and by a short list of what these do not mark."""

from __future__ import annotations

import pytest
from real_models import WORDNET

from caramel.crepe.excluded_words import is_offensive_gloss, is_printable
from caramel.sources.captions.wordnet_files import PartOfSpeechReader


@pytest.mark.parametrize(
    ("gloss", "marked"),
    [
        ("(ethnic slur) offensive term for a person", True),
        ("a disparaging term for an unsophisticated person", True),
        ("(sometimes offensive) a homeless boy", True),
        ("a United States term that is now considered offensive", True),
        ("obscene words for unacceptable behavior", True),
        ("(slang) a derogatory term used of foreigners", True),
        ("(football) a back on the offensive team", False),
        ('a dog; "an offensive term" was said', False),  # an example
        ("anything that gives off an offensive odor", False),
        ("(music) a slur over two notes", False),
    ],
)
def test_a_gloss_that_marks_its_words_is_told_from_one_about_offence(gloss: str, marked: bool) -> None:
    assert is_offensive_gloss(gloss) is marked


@pytest.mark.skipif(
    not (WORDNET / "data.noun").exists(), reason="WordNet is not installed: apt install wordnet-base"
)
@pytest.mark.parametrize(
    ("word", "printable"),
    [
        ("dog", True),
        ("boy", True),
        ("runt", False),
        ("slave", False),
        ("hillbilly", False),
        ("half-breed", False),
    ],
)
def test_words_of_the_real_wordnet(word: str, printable: bool) -> None:
    assert is_printable(PartOfSpeechReader(WORDNET, "noun"), word) is printable
