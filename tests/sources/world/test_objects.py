import io
from typing import Any

import numpy as np
from PIL import Image

from caramel.io.image_codec import decode_center_crop
from caramel.schemas.contracts import check_table
from caramel.schemas.pairs import PAIRS
from caramel.sources.world.drawing import BACKGROUND_RGB, CANVAS, CELL, draw_icon_masks
from caramel.sources.world.exact_reader import read_images
from caramel.sources.world.grammar import parse_caption
from caramel.sources.world.objects import BORDER, ObjectImages, select_examples
from caramel.sources.world.scenes import COLOURS, NOUNS, SIZES, Scene, is_true_of_objects


def test_each_picture_shows_one_object_of_which_the_caption_says_all() -> None:
    pictures = ObjectImages(40, seed=5)
    pairs = pictures.build_pairs()
    check_table(PAIRS, pairs, "test")
    assert list(pictures) == pairs["image_id"].tolist()
    for row in pairs.itertuples():
        said = parse_caption(row.caption)
        assert said is not None
        (mention,) = said.meaning.mentions
        assert mention.colour
        assert mention.size
        scene = Scene.from_json(row.scene)
        assert is_true_of_objects(said.meaning, scene.things, exactly=True)
        (shown,) = read_images(placed(pictures[row.image_id], scene)[None])
        assert shown.scene == scene
        assert shown.unreadable == 0


def placed(cell: bytes, scene: Scene) -> Any:
    """Return the picture of a scene whose one object is this cell."""
    whole = np.empty((CANVAS, CANVAS, 3), np.uint8)
    whole[:] = BACKGROUND_RGB[scene.background]
    (thing,) = scene.things
    whole[thing.row * CELL :, thing.column * CELL :][:CELL, :CELL] = decode_center_crop(cell, "cell", CELL)
    return whole


def test_no_icon_reaches_the_border_of_its_cell_and_one_reaches_next_to_it() -> None:
    reached = draw_icon_masks().any(axis=(0, 1, 2, 3))
    inside = np.zeros_like(reached)
    inside[BORDER:-BORDER, BORDER:-BORDER] = True
    assert not reached[~inside].any()
    assert reached[BORDER].any()


def test_every_object_of_the_world_is_drawn() -> None:
    captions = set(ObjectImages(2500, seed=5).build_pairs()["caption"])
    assert len(captions) == len(NOUNS) * len(COLOURS) * len(SIZES)


def test_equal_seeds_give_equal_pictures_in_any_order() -> None:
    one, two, other = ObjectImages(5, seed=1), ObjectImages(9, seed=1), ObjectImages(5, seed=2)
    assert [one[name] for name in one] == [two[name] for name in reversed(list(one))][::-1]
    assert one.build_pairs().equals(two.build_pairs().head(5))
    assert not one.build_pairs().equals(other.build_pairs())
    assert Image.open(io.BytesIO(one["object-000000"])).size == (CELL, CELL)


def test_a_generator_learns_scenes_or_single_objects() -> None:
    pairs, images = ObjectImages(3, seed=1).build_pairs(), {"object-000000": b"file"}
    settings: dict[str, Any] = {"size": 64, "number": 4, "seed": 5}
    assert select_examples(pairs, images, method="draw", **settings) == (pairs, images, 64, 0)
    objects = select_examples(pairs, images, method="edit", **settings)
    assert (len(objects.pairs), objects.size, objects.border) == (4, CELL, BORDER)
    assert dict(objects.images) == dict(ObjectImages(4, seed=5))
