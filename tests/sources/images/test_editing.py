import zlib

import numpy as np
import pytest

from caramel.sources.images import editing
from caramel.sources.images.diffusion import Sampling, draw_images, load_pipeline
from caramel.sources.images.editing import draw_pairs
from caramel.sources.world.drawing import BACKGROUND_RGB, CELL
from caramel.sources.world.objects import BORDER
from caramel.sources.world.scenes import Scene, SceneObject

CAR, CUP, TREE = (
    SceneObject("car", "red", "small", 0, 0),
    SceneObject("cup", "blue", "large", 0, 1),
    SceneObject("tree", "green", "large", 1, 1),
)
POSITIVE, NEGATIVE = Scene((CAR, CUP), "grey"), Scene((CAR, TREE), "grey")
HOW = {"sampling": Sampling(2.0, 2)}


def cell(picture, row, column):
    return picture[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]


@pytest.fixture(scope="module")
def pipeline(generator_folder):
    return load_pipeline(generator_folder, "cpu")


def drawn(pipeline, rows, **changes):
    return list(draw_pairs(*pipeline, rows, suffix="", **{"batch_size": 8, **HOW, **changes}))


def test_what_both_scenes_show_is_the_same_pixels_and_the_rest_is_drawn_or_background(pipeline) -> None:
    ((positive, negative),) = drawn(pipeline, [(POSITIVE, NEGATIVE, 1)])
    assert (cell(positive, 0, 0) == cell(negative, 0, 0)).all()
    grey = np.array(BACKGROUND_RGB["grey"])
    for picture, empty in ((positive, [(1, 0), (1, 1)]), (negative, [(0, 1), (1, 0)])):
        for place in empty:
            assert (cell(picture, *place) == grey).all()
    assert not (cell(positive, 0, 1) == grey).all()
    assert not (cell(negative, 1, 1) == grey).all()


def test_the_border_of_a_cell_that_no_icon_reaches_is_background(pipeline) -> None:
    ((positive, _),) = drawn(pipeline, [(POSITIVE, NEGATIVE, 1)])
    found = cell(positive, 0, 1)
    inside = np.zeros((CELL, CELL), bool)
    inside[BORDER:-BORDER, BORDER:-BORDER] = True
    assert (found[~inside] == BACKGROUND_RGB["grey"]).all()
    assert not (found[inside] == BACKGROUND_RGB["grey"]).all(axis=1).any()


def test_both_pictures_are_drawn_alike_whichever_is_called_the_positive(pipeline) -> None:
    one, other = (drawn(pipeline, [pair])[0] for pair in ((POSITIVE, NEGATIVE, 1), (NEGATIVE, POSITIVE, 1)))
    assert (one[0] == other[1]).all()
    assert (one[1] == other[0]).all()


def test_candidates_of_other_seeds_are_drawn_anew(pipeline) -> None:
    one, two = drawn(pipeline, [(POSITIVE, NEGATIVE, 1), (POSITIVE, NEGATIVE, 2)])
    assert not (cell(one[0], 0, 0) == cell(two[0], 0, 0)).all()


def test_the_size_of_a_batch_changes_a_picture_by_rounding_at_most(pipeline) -> None:
    rows = [(POSITIVE, NEGATIVE, seed) for seed in range(3)]
    for a, b in zip(drawn(pipeline, rows), drawn(pipeline, rows, batch_size=1), strict=True):
        assert np.abs(np.stack(a).astype(int) - np.stack(b)).max() <= 1


def test_what_is_known_of_a_picture_stays_as_it_is(pipeline) -> None:
    known = np.random.default_rng(0).integers(256, size=(2, 48, 48, 3), dtype=np.uint8)
    hidden = np.zeros((2, 48, 48), bool)
    hidden[0, :24, :24] = hidden[1, 24:] = True
    found = draw_images(
        *pipeline, ["A red car.", "A cup."], [1, 2], image_size=48, known=known, hidden=hidden, **HOW
    )
    assert (found[~hidden] == known[~hidden]).all()
    assert not (found[hidden] == known[hidden]).all()


def test_the_prompt_of_an_object_has_no_final_stop_before_its_suffix(pipeline, monkeypatch) -> None:
    asked = []

    def keep(*args, **kwargs):
        asked.extend(args[2])
        return draw_images(*args, **kwargs)

    monkeypatch.setattr("caramel.sources.images.editing.draw_images", keep)
    list(draw_pairs(*pipeline, [(POSITIVE, NEGATIVE, 1)], suffix=", a photograph", batch_size=8, **HOW))
    assert asked
    assert all(prompt.endswith(", a photograph") and "." not in prompt for prompt in asked)


def test_the_seed_of_an_object_is_that_of_every_version_before() -> None:
    """The generator draws each object by its seed: another key would draw every image of a data set anew."""
    car = SceneObject(noun="car", colour="red", size="large", row=0, column=1)
    text = "7:Thing(noun='car', colour='red', size='large', row=0, column=1)"
    assert editing._create_patch(car, "cream", 7).seed == zlib.crc32(text.encode())
