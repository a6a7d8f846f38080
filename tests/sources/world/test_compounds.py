from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.sources.world.compounds import (
    assign_split,
    build_mentions,
    draw_held_out_compounds,
    list_meaning_compounds,
    list_scene_compounds,
)
from caramel.sources.world.scenes import (
    COLOURS,
    NOUNS,
    POSITIONS,
    TYPICAL_COLOUR,
    Meaning,
    Mention,
    Relation,
    Scene,
    SceneObject,
    sample_meaning,
    sample_scene,
)

CAR, CUP = SceneObject("car", "red", "small", 0, 0), SceneObject("cup", "blue", "large", 0, 1)


def test_a_scene_composes_colours_numbers_and_every_relation() -> None:
    assert list_scene_compounds(Scene((CAR, CUP), "white")) == {
        ("car", "red"),
        ("cup", "blue"),
        ("car", "2"),
        ("cup", "2"),
        ("car", "left", "cup"),
    }


def test_a_relation_and_its_inverse_are_one_compound() -> None:
    said = (Mention("car"), Mention("cup"))
    left = Meaning(said, (Relation(0, "left", 1),))
    right = Meaning(said[::-1], (Relation(0, "right", 1),))
    found = {list_meaning_compounds(m, exactly=False) for m in (left, right)}
    assert found == {frozenset({("car", "left", "cup")})}


def test_a_position_is_neither_a_compound_nor_a_word_that_decides_the_split() -> None:
    said = Meaning((Mention("car", "red"), Mention("cup")))
    for position in POSITIONS:
        other = Meaning(tuple(replace(m, position=position) for m in said.mentions))
        assert list_meaning_compounds(other, exactly=True) == list_meaning_compounds(said, exactly=True)
        assert assign_split(other.mentions) == assign_split(said.mentions)


@given(st.integers(0, 10**9))
def test_what_is_truly_said_of_a_scene_composes_nothing_that_it_does_not_show(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scene = sample_scene(rng, num_objects=int(rng.integers(1, 4)), typical_color_prob=0.5)
    meaning = sample_meaning(rng, scene.things)
    assert list_meaning_compounds(meaning, exactly=True) <= list_scene_compounds(scene)


@given(st.permutations(range(3)), st.integers(0, 10**9))
def test_the_split_of_what_is_said_is_one_whatever_is_swapped(order: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    things = sample_scene(rng, num_objects=3, typical_color_prob=0.5).things
    said = build_mentions(things)
    swapped = [
        Mention(said[a].noun, said[b].colour, said[c].size)
        for a, b, c in zip(order, order[1:] + order[:1], order[2:] + order[:2], strict=True)
    ]
    assert assign_split(swapped) == assign_split(said)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.125, 0.5]))
def test_a_share_of_each_kind_is_held_out_and_leaves_every_noun_its_typical_colour(
    seed: int, share: float
) -> None:
    found = draw_held_out_compounds(share, numbers=[1, 2, 3], seed=seed)
    by_length = {n: [c for c in found if len(c) == n] for n in (2, 3)}
    colours = [c for c in by_length[2] if c[1] in COLOURS]
    assert len(colours) == round(share * len(NOUNS) * len(COLOURS))
    assert len(by_length[3]) == round(share * len(NOUNS) * (len(NOUNS) - 1) * 2)
    assert not set(TYPICAL_COLOUR.items()) & set(colours)
    numbers = [c for c in by_length[2] if c[1] not in COLOURS]
    assert len(numbers) == min(len(NOUNS), round(share * len(NOUNS) * 3))
    assert len({noun for noun, _ in numbers}) == len(numbers)


@pytest.mark.parametrize("numbers", [[2], [2, 2]])
def test_the_only_number_of_objects_there_is_is_not_held_out(numbers: list[int]) -> None:
    found = draw_held_out_compounds(0.5, numbers=numbers, seed=1)
    assert not [c for c in found if c[1] == "2"]


def test_other_seeds_hold_out_other_compounds() -> None:
    one, other = (draw_held_out_compounds(0.125, numbers=[1, 2, 3], seed=seed) for seed in (1, 2))
    assert one != other
    assert one == draw_held_out_compounds(0.125, numbers=[1, 2, 3], seed=1)
