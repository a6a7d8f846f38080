"""Scenes become labels: of each kind of object where it stands, and in what colour and size."""

from __future__ import annotations

from caramel.sources.world.scene_labels import ABSENT, CATEGORIES, label_scenes
from caramel.sources.world.scenes import COLOURS, LOOK_ALIKE, NOUNS, SIZES, Scene, SceneObject


def test_a_kind_has_its_cell_colour_and_size_and_others_have_none() -> None:
    scene = Scene(
        (SceneObject("car", "red", "small", 0, 1), SceneObject("cup", "black", "large", 1, 0)), "white"
    )
    labels = label_scenes([scene.to_json(), Scene((), "grey").to_json()])
    car, cup = CATEGORIES.index("car"), CATEGORIES.index("cup")
    assert labels.cells[0, car] == 2
    assert labels.cells[0, cup] == 3
    assert labels.colours[0, [car, cup]].tolist() == [COLOURS.index("red"), COLOURS.index("black")]
    assert labels.sizes[0, [car, cup]].tolist() == [SIZES.index("small"), SIZES.index("large")]
    others = [n for n in range(len(CATEGORIES)) if n not in (car, cup)]
    assert (labels.cells[0, others] == 0).all()
    assert (labels.colours[0, others] == ABSENT).all()
    assert (labels.cells[1] == 0).all()
    assert (labels.sizes[1] == ABSENT).all()


def test_a_noun_and_its_look_alike_have_the_same_labels() -> None:
    shown = [Scene((SceneObject(noun, "red", "small", 0, 1),), "white").to_json() for noun in NOUNS]
    cells = dict(zip(NOUNS, label_scenes(shown).cells.tolist(), strict=True))
    for noun in NOUNS:
        alike = [other for other in NOUNS if cells[other] == cells[noun]]
        assert {*alike} == {noun, LOOK_ALIKE.get(noun, noun)}
