import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.sources.captions.formatting import format_caption
from caramel.sources.sugarcrepe_files import read_captions
from caramel.utils.text import extract_words

DATA = os.environ.get("CARAMEL_DATA")


@pytest.mark.parametrize(
    ("written", "formatted"),
    [
        ("a red cat", "A red cat."),
        ("  a  red\tcat .. ", "A red cat."),
        ("A cat at Big Ben!", "A cat at Big Ben."),
        ("A cat,", "A cat."),
        ("is it red ??", "Is it red?"),
        ('a sign that says "stop."', 'A sign that says "stop".'),
        ("a cat (black)", "A cat (black)."),
        ("'why' is written on it", "'Why' is written on it."),
        ("3 dogs", "3 dogs."),
        ("iPhone on a desk", "IPhone on a desk."),
        ("A RED CAT ON TV", "A red cat on tv."),
        ("  'A CAT & 3 DOGS!", "'A cat & 3 dogs."),
        ("A CAT on TV", "A CAT on TV."),
        ("...", ""),
        ("", ""),
    ],
)
def test_a_caption_gets_a_capital_and_one_final_stop(written, formatted):
    assert format_caption(written) == formatted


@given(st.text(alphabet=st.sampled_from(list("aZß9 .,!?\"')(…\n-é")), max_size=20) | st.text(max_size=20))
def test_formatting_twice_changes_nothing_more(text):
    once = format_caption(text)
    assert format_caption(once) == once
    assert once == "" or once[-1] in ".?"


@given(st.text(alphabet=st.sampled_from(list("abC .,!?\"'")), max_size=20))
def test_formatting_keeps_the_words(text):
    assert extract_words(format_caption(text)) == extract_words(text)


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")
@pytest.mark.parametrize(("name", "shouting"), [("sugarcrepe", 41), ("sugarcrepe_unrefined", None)])
def test_no_caption_of_the_public_files_is_given_away_by_its_capitals(name, shouting):
    rows = read_captions(Path(DATA or "", name))
    sides = rows["caption"], rows["negative_caption"]
    before = sides[0].str.isupper() & ~sides[1].str.isupper()
    assert before.any() if shouting is None else before.sum() == shouting
    assert not any(side.map(format_caption).str.isupper().any() for side in sides)
