from __future__ import annotations

import numpy as np
import pytest

from caramel.sources.world.grammar import Reading
from caramel.sources.world.scenes import Meaning, Mention, Scene, SceneObject
from caramel.sources.world.siblings import move_objects, sample_sibling, swap_colours

SCENE = Scene((SceneObject("car", "red", "small", 0, 0), SceneObject("cup", "blue", "large", 0, 1)), "grey")
SINGLE = Scene(SCENE.things[:1], "white")
SAID = Reading(Meaning((Mention("car"),)), 0)


def grow(
    first: Scene, size: int, may_stand=lambda scene: True, write_caption=lambda scene: SAID, seed=0
) -> list[Scene]:
    rng, group = np.random.default_rng(seed), [first]
    for _ in range(size - 1):
        sibling = sample_sibling(rng, group, may_stand, write_caption)
        if sibling is None:
            break
        group.append(sibling[0])
    return group


def looks(scene: Scene) -> list[tuple[str, str]]:
    return [(t.noun, t.size) for t in scene.things]


def cells(scene: Scene) -> list[tuple[int, int]]:
    return [(t.row, t.column) for t in scene.things]


def colours(scene: Scene) -> list[str]:
    return [t.colour for t in scene.things]


@pytest.mark.parametrize("seed", range(20))
def test_siblings_show_the_same_objects_and_all_differ(seed: int) -> None:
    group = grow(SCENE, 8, seed=seed)
    assert len(set(group)) == len(group) == 8
    for scene in group:
        assert looks(scene) == looks(SCENE)
        assert sorted(colours(scene)) == sorted(colours(SCENE))
        assert scene.background == SCENE.background
        assert len(set(cells(scene))) == 2


def test_a_sibling_is_moved_or_has_its_colours_exchanged_and_not_both() -> None:
    moved = [cells(scene) != cells(SCENE) for seed in range(200) for scene in grow(SCENE, 2, seed=seed)[1:]]
    other = [
        colours(scene) != colours(SCENE) for seed in range(200) for scene in grow(SCENE, 2, seed=seed)[1:]
    ]
    assert moved == [not exchanged for exchanged in other]
    assert 70 < sum(moved) < 130


def test_a_single_object_and_objects_of_one_colour_are_moved() -> None:
    same = Scene((SCENE.things[0], SceneObject("cup", "red", "large", 0, 1)), "grey")
    for first in (SINGLE, same):
        rng = np.random.default_rng(0)
        found = [swap_colours(rng, first) for _ in range(300)]
        assert {*map(tuple, map(colours, found))} == {tuple(colours(first))}
        assert len({*map(tuple, map(cells, found))}) == (4 if first is SINGLE else 12)


def test_exchanged_colours_are_in_another_order_whatever_is_drawn() -> None:
    three = Scene((*SCENE.things, SceneObject("box", "red", "small", 1, 1)), "grey")
    found = {tuple(colours(swap_colours(np.random.default_rng(seed), three))) for seed in range(50)}
    assert found == {("red", "red", "blue"), ("blue", "red", "red")}


def test_objects_are_moved_to_cells_of_their_own() -> None:
    rng = np.random.default_rng(0)
    assert all(len(set(cells(move_objects(rng, SCENE)))) == 2 for _ in range(50))


def test_a_group_ends_where_no_further_sibling_is_to_be_had() -> None:
    assert len(grow(SINGLE, 8)) == 4
    assert grow(SCENE, 8, may_stand=lambda scene: False) == [SCENE]
    assert grow(SCENE, 8, write_caption=lambda scene: None) == [SCENE]


def test_a_sibling_may_stand_and_has_a_caption() -> None:
    def is_upper(scene: Scene) -> bool:
        return scene.things[0].row == 0

    def write_caption(scene: Scene) -> Reading | None:
        return SAID if scene.things[1].row == 1 else None

    siblings = [s for seed in range(20) for s in grow(SCENE, 8, is_upper, write_caption, seed)[1:]]
    assert len(siblings) > 20
    assert all(scene.things[0].row == 0 and scene.things[1].row == 1 for scene in siblings)
