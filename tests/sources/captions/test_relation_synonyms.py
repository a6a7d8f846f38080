"""Relations are read as a verb and a preposition, each in one form for all that say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.sources.captions.relation_synonyms import (
    SAME_PREPOSITIONS,
    SAME_VERBS,
    get_verb,
    is_weaker_relation,
    parse_relation,
)

RELATION = st.lists(
    st.sampled_from(["is", "sitting", "holding", "on", "top", "of", "the", "next", "to", "by", "in", "mop"]),
    max_size=5,
).map(" ".join)


@pytest.mark.parametrize(
    ("phrase", "verb", "preposition"),
    [
        ("is sitting on top of", "sit", "on"),
        ("beside", "", "next to"),
        ("holds", "hold", ""),
        ("running around in a field", "run", "around in field"),
        ("is looking at", "look", ""),
        ("stares at", "look", ""),
        ("looking out of", "look", "out of"),
        ("surrounded by", "surround", "by"),
        ("are staring at", "look", ""),
        ("watches", "look", ""),
        ("with", "", "with"),
        ("to the left side of", "", "to left of"),
        ("", "", ""),
    ],
)
def test_a_relation_has_a_verb_and_a_preposition(phrase: str, verb: str, preposition: str) -> None:
    assert parse_relation(phrase) == (verb, preposition)


@pytest.mark.parametrize(
    ("first", "second", "weaker"),
    [
        ("looking at", "watching", True),
        ("watching", "gazing at", True),
        ("looking at", "looking behind", False),
    ],
)
def test_looking_at_something_and_watching_it_say_the_same(first: str, second: str, weaker: bool) -> None:
    assert is_weaker_relation(first, second) == weaker


@pytest.mark.parametrize("line", SAME_PREPOSITIONS)
def test_the_prepositions_of_a_line_say_the_same(line: tuple[str, ...]) -> None:
    assert all(is_weaker_relation(line[0], other) and is_weaker_relation(other, line[0]) for other in line)


@pytest.mark.parametrize(
    ("old", "new"),
    [("looking at", "watching"), ("watches", "looks at"), ("next to", "with"), ("playing with", "with")],
)
def test_looking_is_watching_and_what_is_beside_something_is_with_it(old: str, new: str) -> None:
    assert is_weaker_relation(old, new)


def test_no_word_is_in_two_lines() -> None:
    for lines in (SAME_PREPOSITIONS, SAME_VERBS):
        names = [name for line in lines for name in line]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("form", "verb"),
    [
        ("sits", "sit"),
        ("sitting", "sit"),
        ("seated", "sit"),
        ("riding", "ride"),
        ("carries", "hold"),
        ("lying", "lie"),
        ("laid", "lie"),
        ("passes", "pass"),
        ("watching", "look"),
        ("eats", "eat"),
        ("dancing", "dance"),
        ("jumped", "jump"),
    ],
)
def test_the_forms_of_a_verb_and_its_synonyms_are_one(form: str, verb: str) -> None:
    assert get_verb(form) == verb


@given(RELATION)
def test_a_relation_follows_from_itself_if_it_says_anything(phrase: str) -> None:
    assert (
        is_weaker_relation(phrase, phrase) == any(parse_relation(phrase))
        or not parse_relation(phrase).preposition
    )


@given(RELATION, RELATION, RELATION)
def test_what_follows_from_what_follows_from_the_same_place_follows_too(
    first: str, second: str, third: str
) -> None:
    one, two, three = map(parse_relation, (first, second, third))
    if one == two == three and any(one):
        assert is_weaker_relation(first, third) or (not one.verb and not one.preposition)
