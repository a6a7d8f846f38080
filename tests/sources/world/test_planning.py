from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.schemas.columns import SPLITS
from caramel.sources.captions.rules import RULES
from caramel.sources.world.compounds import is_allowed_in_split
from caramel.sources.world.grammar import Reading, parse_caption
from caramel.sources.world.planning import can_be_shown, find_changed_cells, find_layouts, plan_scene
from caramel.sources.world.scenes import (
    COLOURS,
    NOUNS,
    Meaning,
    Mention,
    Relation,
    Scene,
    SceneObject,
    is_true_of_objects,
    sample_meaning,
    sample_scene,
)

SCENE = Scene((SceneObject("car", "red", "small", 0, 0), SceneObject("cup", "blue", "large", 0, 1)), "grey")
POSITIVE = parse_caption("A small red car is to the left of a large blue cup.")


def anywhere(scene: Scene) -> bool:
    return True


def planned(caption: str, may_stand: Callable[[Scene], bool] = anywhere) -> Scene:
    negative = parse_caption(caption)
    assert negative is not None
    assert POSITIVE is not None
    found = plan_scene(negative, POSITIVE, SCENE, np.random.default_rng(0), may_stand)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("caption", "cells"),
    [
        ("A small green car is to the left of a large blue cup.", 1),
        ("A small red tree is to the left of a large blue cup.", 1),
        ("A small blue car is to the left of a large red cup.", 2),
        ("A large blue cup is to the left of a small red car.", 2),
        ("A small red car is to the left of a large blue cup along with a tree.", 1),
    ],
)
def test_as_few_cells_change_as_can_be(caption: str, cells: int) -> None:
    found = planned(caption)
    assert found.background == SCENE.background
    assert len(find_changed_cells(SCENE, found.things)) == cells
    assert POSITIVE is not None
    assert not is_true_of_objects(POSITIVE.whole, found.things, exactly=True)


def test_what_a_caption_does_not_say_stays_as_it_was() -> None:
    assert set(planned("A car is to the left of a cup along with a tree.").things) > set(SCENE.things)
    assert planned("A tree is to the left of a cup.").things[0] == SceneObject("tree", "red", "small", 0, 0)


@given(st.integers(0, 10**9), st.sampled_from(sorted(RULES)), st.sampled_from([0.0, 1.0]))
def test_every_negative_that_can_be_shown_is_exactly_true_of_its_plan(
    seed: int, subtype: str, share: float
) -> None:
    rng = np.random.default_rng(seed)
    scene = sample_scene(rng, num_objects=int(rng.integers(1, 4)), typical_color_prob=0.5)
    said = Reading(sample_meaning(rng, scene.things, absolute_positions=share), 0)
    negative = RULES[subtype](said, rng)
    if isinstance(negative, str) or not find_layouts(negative.whole):
        return
    found = plan_scene(negative, said, scene, rng, anywhere)
    assert found is not None
    assert is_true_of_objects(negative.whole, found.things, exactly=True)
    assert len({(t.row, t.column) for t in found.things}) == len(found.things)


def test_where_the_nearest_scene_may_not_stand_the_object_that_changes_anyway_takes_another_look() -> None:
    def no_red_tree(scene: Scene) -> bool:
        return not any((t.noun, t.colour) == ("tree", "red") for t in scene.things)

    found = planned("A tree is to the left of a cup.", no_red_tree)
    assert found.things[0].colour != "red"
    assert found.things[0].size == "small"
    assert found.things[1] == SCENE.things[1]


@given(st.integers(0, 10**9), st.sampled_from(SPLITS), st.sampled_from([0.0, 1.0]))
def test_what_can_be_shown_is_what_can_be_planned(seed: int, split: str, share: float) -> None:
    rng = np.random.default_rng(seed)
    scene = sample_scene(rng, num_objects=2, typical_color_prob=0.5)
    meaning = sample_meaning(rng, scene.things, absolute_positions=share)
    kept_out = frozenset((noun, colour) for noun in NOUNS for colour in COLOURS[:4])
    may_stand = partial(is_allowed_in_split, split=split, kept_out=kept_out)
    said = Reading(meaning, 0)
    found = plan_scene(said, said, scene, rng, may_stand)
    assert (found is not None) == can_be_shown(meaning, split, kept_out)
    assert found is None or may_stand(found)


def test_what_needs_three_rows_cannot_be_shown() -> None:
    mentions = Mention("car"), Mention("cup"), Mention("box")
    assert find_layouts(Meaning(mentions, (Relation(0, "above", 1), Relation(2, "below", 1)))) == ()
    assert len(find_layouts(Meaning(mentions, (Relation(0, "above", 1), Relation(2, "above", 1))))) == 4
    assert len(find_layouts(Meaning(mentions[:2]))) == 12


def test_three_objects_have_no_room_in_one_column() -> None:
    def count(*positions: str | None) -> int:
        return len(
            find_layouts(
                Meaning(tuple(Mention(n, position=p) for n, p in zip(NOUNS, positions, strict=False)))
            )
        )

    assert count("left", "left", "left") == count("top", "top", "top") == 0
    assert count("left", "left", "top") == 2
    assert count("left") == 2
    assert count("left", None) == 6


def test_a_moved_object_stands_where_its_caption_says_and_the_other_one_stays() -> None:
    positive = parse_caption("A red car on the left and a blue cup at the top.")
    negative = parse_caption("A red car on the left and a blue cup at the bottom.")
    assert positive is not None
    assert negative is not None
    found = plan_scene(negative, positive, SCENE, np.random.default_rng(0), anywhere)
    assert found is not None
    assert found.things[0] == SCENE.things[0]
    assert found.things[1].row == 1
    assert not is_true_of_objects(positive.whole, found.things, exactly=True)
