import io

from PIL import Image

from caramel import tables
from caramel.sources.world.drawing import CANVAS
from caramel.sources.world.language import read
from caramel.sources.world.objects import Objects
from caramel.sources.world.reading import read_pictures
from caramel.sources.world.scenes import COLOURS, NOUNS, SIZES, Scene, holds
from caramel.storage.pictures import pixels


def test_each_picture_shows_one_object_of_which_the_caption_says_all() -> None:
    pictures = Objects(40, seed=5)
    pairs = pictures.pairs()
    tables.check(tables.PAIRS, pairs, "test")
    assert list(pictures) == pairs["image_id"].tolist()
    for row in pairs.itertuples():
        said = read(row.caption)
        assert said is not None
        (mention,) = said.meaning.mentions
        assert mention.colour
        assert mention.size
        things = Scene.from_json(row.scene).things
        assert holds(said.meaning, things, exactly=True)
        (shown,) = read_pictures(pixels(pictures[row.image_id], row.image_id, CANVAS)[None])
        assert shown.scene.things == things


def test_every_object_of_the_world_is_drawn() -> None:
    captions = set(Objects(2500, seed=5).pairs()["caption"])
    assert len(captions) == len(NOUNS) * len(COLOURS) * len(SIZES)


def test_equal_seeds_give_equal_pictures_in_any_order() -> None:
    one, two, other = Objects(5, seed=1), Objects(9, seed=1), Objects(5, seed=2)
    assert [one[name] for name in one] == [two[name] for name in reversed(list(one))][::-1]
    assert one.pairs().equals(two.pairs().head(5))
    assert not one.pairs().equals(other.pairs())
    assert Image.open(io.BytesIO(one["object-000000"])).size == (CANVAS, CANVAS)
