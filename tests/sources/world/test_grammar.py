import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.sources.world.grammar import (
    PATTERNS,
    Reading,
    format_mention,
    get_pattern_key,
    parse_caption,
    realise_caption,
)
from caramel.sources.world.scenes import (
    NOUNS,
    POSITIONS,
    Meaning,
    Mention,
    Relation,
    sample_meaning,
    sample_scene,
)


@given(st.integers(0, 10**9), st.booleans())
def test_every_caption_reads_back_to_its_meaning(seed: int, positions: bool) -> None:
    rng = np.random.default_rng(seed)
    scene = sample_scene(rng, num_objects=int(rng.integers(1, 4)), typical_color_prob=0.5)
    meaning = sample_meaning(rng, scene.things, absolute_positions=float(positions))
    nouns = {m.noun for m in meaning.mentions}
    tail = Mention(next(n for n in NOUNS if n not in nouns), "green", position="top" if positions else None)
    for pattern in range(len(PATTERNS[get_pattern_key(meaning)])):
        for said in (
            Reading(meaning, pattern),
            Reading(meaning, pattern, added=tail),
            Reading(meaning, pattern, alone=True),
        ):
            assert parse_caption(realise_caption(said)) == said


def test_a_caption_with_a_tail_says_the_added_object() -> None:
    meaning = Meaning((Mention("car", "red"), Mention("cup")), (Relation(0, "above", 1),))
    said = parse_caption("A red car is above a cup along with a green tree.")
    assert said == Reading(meaning, 0, added=Mention("tree", "green"))
    assert said.whole.mentions == (*meaning.mentions, Mention("tree", "green"))


def test_that_nothing_else_is_there_takes_as_many_words_as_one_noun_more() -> None:
    meaning = Meaning((Mention("car", "red"),))
    alone, more = Reading(meaning, 0, alone=True), Reading(meaning, 0, added=Mention("tree"))
    assert realise_caption(alone) == "A red car along with nothing else."
    assert len(realise_caption(alone).split()) == len(realise_caption(more).split())


def test_positions_are_said_behind_the_noun() -> None:
    said = parse_caption("A red car on the left and a small blue house at the top.")
    mentions = (Mention("car", "red", position="left"), Mention("house", "blue", "small", position="top"))
    assert said == Reading(Meaning(mentions), 0)


@given(st.lists(st.sampled_from([None, *POSITIONS]), min_size=1, max_size=3))
def test_a_caption_may_say_the_positions_of_some_objects_alone(positions: list[str | None]) -> None:
    mentions = tuple(Mention(noun, position=p) for noun, p in zip(NOUNS, positions, strict=False))
    for pattern in range(len(PATTERNS[len(positions), 0])):
        said = Reading(Meaning(mentions), pattern)
        assert parse_caption(realise_caption(said)) == said


@pytest.mark.parametrize(
    "text",
    [
        "A car on the left is above a house.",
        "A car is above a house at the bottom.",
        "A car is above a house along with a cup at the top.",
    ],
)
def test_no_sentence_says_a_position_beside_a_relation(text: str) -> None:
    assert parse_caption(text) is None


def test_inverse_forms_say_the_same() -> None:
    direct = parse_caption("A red car is to the left of a blue house.")
    inverse = parse_caption("A blue house has a red car to its left.")
    passive = parse_caption("A red car that has a blue house to its right.")
    assert direct is not None
    assert inverse is not None
    assert passive is not None
    assert direct.meaning.canonicalise() == inverse.meaning.canonicalise() == passive.meaning.canonicalise()


def test_there_are_at_least_six_sentence_forms_for_one_and_for_two_objects() -> None:
    assert len(PATTERNS[1, 0]) >= 6
    assert len(PATTERNS[2, 1]) >= 6


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A dog.",
        "A red car",
        "A car red.",
        "A car on the top.",
        "A car at the left.",
        "A car is near a house.",
        "A red car is above a blue house!",
    ],
)
def test_what_is_no_sentence_of_the_language_reads_as_none(text: str) -> None:
    assert parse_caption(text) is None


@given(st.text(max_size=40))
def test_no_text_that_is_not_of_the_language_is_read(text: str) -> None:
    found = parse_caption(text)
    if found is not None:
        assert realise_caption(found).lower() == text.lower()


def test_the_article_follows_the_next_word() -> None:
    assert format_mention(Mention("car", "orange")) == "an orange car"
    assert format_mention(Mention("car", "orange", "small")) == "a small orange car"
