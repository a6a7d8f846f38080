"""Scenes become labels: of each noun where it stands, and in what colour and size."""

from __future__ import annotations

from caramel.sources.world.scene_labels import ABSENT, label_scenes
from caramel.sources.world.scenes import COLOURS, NOUNS, SIZES, Scene, Thing


def test_a_noun_has_its_cell_colour_and_size_and_others_have_none() -> None:
    scene = Scene((Thing("car", "red", "small", 0, 1), Thing("key", "black", "large", 1, 0)), "white")
    labels = label_scenes([scene.to_json(), Scene((), "grey").to_json()])
    car, key = NOUNS.index("car"), NOUNS.index("key")
    assert labels.cells[0, car] == 2
    assert labels.cells[0, key] == 3
    assert labels.colours[0, [car, key]].tolist() == [COLOURS.index("red"), COLOURS.index("black")]
    assert labels.sizes[0, [car, key]].tolist() == [SIZES.index("small"), SIZES.index("large")]
    others = [n for n in range(len(NOUNS)) if n not in (car, key)]
    assert (labels.cells[0, others] == 0).all()
    assert (labels.colours[0, others] == ABSENT).all()
    assert (labels.cells[1] == 0).all()
    assert (labels.sizes[1] == ABSENT).all()
