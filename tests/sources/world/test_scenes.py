import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from caramel.sources.world.scenes import (
    COLOURS,
    NOUNS,
    POSITIONS,
    RELATIONS,
    SIZES,
    Meaning,
    Mention,
    Relation,
    Scene,
    SceneObject,
    has_relation,
    is_true_of_objects,
    sample_meaning,
    sample_scene,
)

CAR = SceneObject("car", "red", "small", 0, 0)
HOUSE = SceneObject("house", "blue", "large", 0, 1)


def random_scene(seed: int) -> Scene:
    rng = np.random.default_rng(seed)
    return sample_scene(rng, num_objects=int(rng.integers(1, 4)), typical_color_prob=0.5)


@given(st.integers(0, 10**9), st.sampled_from([0.0, 0.5, 1.0]))
def test_a_sampled_meaning_is_true_of_its_scene(seed: int, share: float) -> None:
    scene = random_scene(seed)
    meaning = sample_meaning(np.random.default_rng(seed), scene.things, absolute_positions=share)
    assert is_true_of_objects(meaning, scene.things, exactly=True)


@given(st.integers(0, 10**9))
def test_a_meaning_says_relations_or_the_position_of_every_object(seed: int) -> None:
    things = random_scene(seed).things
    without = sample_meaning(np.random.default_rng(seed), things)
    assert {m.position for m in without.mentions} == {None}
    meaning = sample_meaning(np.random.default_rng(seed), things, absolute_positions=1.0)
    assert meaning.relations == ()
    assert {m.position for m in meaning.mentions} <= set(POSITIONS)


def test_columns_and_rows_are_said_with_equal_chance() -> None:
    rng = np.random.default_rng(0)
    said = [sample_meaning(rng, (CAR,), absolute_positions=0.5).mentions[0].position for _ in range(1000)]
    counts = {position: said.count(position) for position in {*said}}
    assert set(counts) == {None, "left", "top"}
    assert abs(counts[None] - 500) < 60
    assert abs(counts["left"] - 250) < 60


@given(st.integers(0, 10**9))
def test_a_scene_survives_json(seed: int) -> None:
    scene = random_scene(seed)
    assert Scene.from_json(scene.to_json()) == scene


@given(st.integers(0, 10**9))
def test_objects_of_a_scene_differ_in_noun_and_cell(seed: int) -> None:
    things = random_scene(seed).things
    assert len({t.noun for t in things}) == len(things)
    assert len({(t.row, t.column) for t in things}) == len(things)


def test_swapped_attributes_are_false() -> None:
    meant = Meaning((Mention("car", "blue"), Mention("house", "red")))
    assert not is_true_of_objects(meant, (CAR, HOUSE), exactly=False)


def test_a_swapped_relation_is_false() -> None:
    mentions = (Mention("car"), Mention("house"))
    assert is_true_of_objects(Meaning(mentions, (Relation(0, "left", 1),)), (CAR, HOUSE), exactly=True)
    assert not is_true_of_objects(Meaning(mentions, (Relation(1, "left", 0),)), (CAR, HOUSE), exactly=True)


def test_an_object_more_makes_a_caption_false_that_names_all_there_is() -> None:
    meaning = Meaning((Mention("car", "red", "small"),))
    assert not is_true_of_objects(meaning, (CAR, HOUSE), exactly=True)
    assert is_true_of_objects(meaning, (CAR, HOUSE), exactly=False)


def test_one_object_cannot_stand_for_two_mentions() -> None:
    assert not is_true_of_objects(
        Meaning((Mention("car"), Mention("car", "red"))), (CAR, HOUSE), exactly=True
    )


def test_equal_meanings_have_equal_canonical_forms() -> None:
    a, b = Mention("car", "red"), Mention("house")
    left = Meaning((a, b), (Relation(0, "left", 1),))
    right = Meaning((b, a), (Relation(0, "right", 1),))
    other = Meaning((a, b), (Relation(1, "left", 0),))
    assert left.canonicalise() == right.canonicalise() != other.canonicalise()


def test_holds_agrees_with_a_check_written_from_the_definition() -> None:
    """Every two-object scene on two cells against every caption of two bare mentions."""

    def true_by_hand(meaning: Meaning, things: tuple[SceneObject, ...]) -> bool:
        by_noun = {t.noun: t for t in things}
        for m in meaning.mentions:
            thing = by_noun.get(m.noun)
            if thing is None or (m.colour and m.colour != thing.colour):
                return False
        ends = [by_noun[m.noun] for m in meaning.mentions]
        return all(has_relation(ends[r.subject], r.predicate, ends[r.object]) for r in meaning.relations)

    for nouns in itertools.permutations(NOUNS[:3], 2):
        for colours in itertools.product(COLOURS[:2], repeat=2):
            things = tuple(
                SceneObject(n, c, SIZES[0], 0, i) for i, (n, c) in enumerate(zip(nouns, colours, strict=True))
            )
            for said in itertools.permutations(NOUNS[:3], 2):
                for kind in RELATIONS:
                    meaning = Meaning(tuple(Mention(n, "red") for n in said), (Relation(0, kind, 1),))
                    for exactly in (True, False):
                        assert is_true_of_objects(meaning, things, exactly=exactly) == true_by_hand(
                            meaning, things
                        )


def test_a_position_is_true_of_the_objects_of_its_column_or_row_alone() -> None:
    cells = {
        "left": {(0, 0), (1, 0)},
        "right": {(0, 1), (1, 1)},
        "top": {(0, 0), (0, 1)},
        "bottom": {(1, 0), (1, 1)},
    }
    for position, cell in itertools.product(POSITIONS, itertools.product(range(2), repeat=2)):
        meaning = Meaning((Mention("car", position=position),))
        things = (SceneObject("car", "red", "small", *cell),)
        assert is_true_of_objects(meaning, things, exactly=True) == (cell in cells[position])


def test_positions_that_are_exchanged_are_another_meaning() -> None:
    said = [
        Meaning((Mention("car", position=a), Mention("house", position=b)))
        for a, b in (("left", "right"), ("right", "left"))
    ]
    assert said[0].canonicalise() != said[1].canonicalise()
    assert [is_true_of_objects(meaning, (CAR, HOUSE), exactly=True) for meaning in said] == [True, False]
