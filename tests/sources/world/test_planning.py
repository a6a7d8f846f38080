from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel import tables
from caramel.captions.rules import RULES
from caramel.sources.world.compounds import belongs
from caramel.sources.world.language import Reading, read
from caramel.sources.world.planning import can_be_shown, changed_cells, layouts, plan
from caramel.sources.world.scenes import (
    COLOURS,
    NOUNS,
    Relation,
    Scene,
    Thing,
    holds,
    sample_meaning,
    sample_scene,
)

SCENE = Scene((Thing("car", "red", "small", 0, 0), Thing("cup", "blue", "large", 0, 1)), "grey")
POSITIVE = read("A small red car is to the left of a large blue cup.")


def anywhere(scene: Scene) -> bool:
    return True


def planned(caption: str, may_stand: Callable[[Scene], bool] = anywhere) -> Scene:
    negative = read(caption)
    assert negative is not None
    assert POSITIVE is not None
    found = plan(negative, POSITIVE, SCENE, np.random.default_rng(0), may_stand)
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
    assert len(changed_cells(SCENE, found.things)) == cells
    assert POSITIVE is not None
    assert not holds(POSITIVE.whole, found.things, exactly=True)


def test_what_a_caption_does_not_say_stays_as_it_was() -> None:
    assert set(planned("A car is to the left of a cup along with a tree.").things) > set(SCENE.things)
    assert planned("A tree is to the left of a cup.").things[0] == Thing("tree", "red", "small", 0, 0)


@given(st.integers(0, 10**9), st.sampled_from(sorted(RULES)))
def test_every_negative_that_can_be_shown_is_exactly_true_of_its_plan(seed: int, subtype: str) -> None:
    rng = np.random.default_rng(seed)
    scene = sample_scene(rng, objects=int(rng.integers(1, 4)), prior=0.5)
    said = Reading(sample_meaning(rng, scene.things), 0)
    negative = RULES[subtype](said, rng)
    if isinstance(negative, str) or not layouts(len(negative.whole.mentions), negative.whole.relations):
        return
    found = plan(negative, said, scene, rng, anywhere)
    assert found is not None
    assert holds(negative.whole, found.things, exactly=True)
    assert len({(t.row, t.column) for t in found.things}) == len(found.things)


def test_where_the_nearest_scene_may_not_stand_the_object_that_changes_anyway_takes_another_look() -> None:
    def no_red_tree(scene: Scene) -> bool:
        return not any((t.noun, t.colour) == ("tree", "red") for t in scene.things)

    found = planned("A tree is to the left of a cup.", no_red_tree)
    assert found.things[0].colour != "red"
    assert found.things[0].size == "small"
    assert found.things[1] == SCENE.things[1]


@given(st.integers(0, 10**9), st.sampled_from(tables.SPLITS))
def test_what_can_be_shown_is_what_can_be_planned(seed: int, split: str) -> None:
    rng = np.random.default_rng(seed)
    scene = sample_scene(rng, objects=2, prior=0.5)
    meaning = sample_meaning(rng, scene.things)
    kept_out = frozenset((noun, colour) for noun in NOUNS for colour in COLOURS[:4])
    may_stand = partial(belongs, split=split, kept_out=kept_out)
    said = Reading(meaning, 0)
    found = plan(said, said, scene, rng, may_stand)
    assert (found is not None) == can_be_shown(meaning, split, kept_out)
    assert found is None or may_stand(found)


def test_what_needs_three_rows_cannot_be_shown() -> None:
    assert layouts(3, (Relation(0, "above", 1), Relation(2, "below", 1))) == ()
    assert len(layouts(3, (Relation(0, "above", 1), Relation(2, "above", 1)))) == 4
    assert len(layouts(2, ())) == 12
