import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.captions.formatting import format_caption
from caramel.texts import words_only


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
    assert words_only(format_caption(text)) == words_only(text)
