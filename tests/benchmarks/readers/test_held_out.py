"""Retrieval and classes on the source's own held-out pairs, judged one query at a time."""

from pathlib import Path

import numpy as np
import pytest
from stored_images import indexed

from caramel.benchmarks.readers.held_out import CLASSES, RETRIEVAL
from caramel.errors import DataError
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.pairs import PAIRS
from caramel.sources.world.grammar import parse_caption
from caramel.sources.world.scenes import COLOURS, NOUNS, Scene, SceneObject

RED, BLUE = SceneObject("ball", "red", "small", 0, 0), SceneObject("cup", "blue", "large", 1, 1)
ROWS = [  # pair, image, caption, objects, split
    ("p0", "i0", "A red ball.", (RED,), "test"),
    ("p1", "i1", "A blue cup.", (BLUE,), "test"),
    ("p2", "i2", "A red ball and a blue cup.", (RED, BLUE), "test"),
    ("p3", "i2", "A blue cup.", (RED, BLUE), "test"),
    ("p4", "gone", "A cup.", (BLUE,), "test"),
    ("p5", "i5", "A key.", (RED,), "val"),
]


def write(folder: Path, scenes: bool = True) -> Path:
    rows = [
        {
            "pair_id": pair,
            "image_id": image,
            "caption": caption,
            "scene": Scene(things, "white").to_json() if scenes else None,
            "split": split,
            "source": "world",
        }
        for pair, image, caption, things, split in ROWS
    ]
    write_table(PAIRS, build_frame(PAIRS, rows), folder / "pairs.parquet")
    write_table(IMAGES, indexed(["i0", "i1", "i2", "i5"]), folder / "images.parquet")
    return folder


def test_a_caption_of_several_images_is_one_candidate_and_true_of_each(tmp_path: Path) -> None:
    task = RETRIEVAL.load_rows(write(tmp_path), tmp_path)
    texts = [text for (text,) in task.texts]
    assert texts == ["A red ball.", "A blue cup.", "A red ball and a blue cup."]
    assert [image.name for image in task.images] == ["i0", "i1", "i2"]
    asked = {row.instance_id: (row.query, row.true, row.subsets) for row in task.rows.itertuples()}
    assert asked["i2t/i2"] == (2, [1, 2], ["i2t"])
    assert asked["t2i/p1"] == (1, [1, 2], ["t2i"])
    assert len(asked) == 6
    assert [pool.tolist() for pool in task.pools] == [[0, 1, 2], [0, 1, 2]]


def test_images_are_drawn_by_name_and_seed_alone(tmp_path: Path) -> None:
    def drawn(seed: int) -> set[str | None]:
        task = RETRIEVAL.load_rows(write(tmp_path), tmp_path, count=2, seed=seed)
        return {image.name for image in task.images}

    assert all(len(drawn(seed)) == 2 for seed in range(5))
    assert drawn(1) == drawn(1)
    assert len({frozenset(drawn(seed)) for seed in range(8)}) > 1


def test_a_picture_of_one_object_asks_for_its_noun_and_its_colour(tmp_path: Path) -> None:
    task = CLASSES.load_rows(write(tmp_path), tmp_path)
    rows = task.rows.set_index("instance_id")
    assert list(rows.index) == ["noun/i0", "colour/i0", "noun/i1", "colour/i1"]
    classes = (*NOUNS, *COLOURS)
    assert [classes[true[0]] for true in rows["true"]] == ["ball", "red", "cup", "blue"]
    assert [[classes[i] for i in task.pools[p]] for p in rows["pool"][:2]] == [[*NOUNS], [*COLOURS]]
    assert all(
        np.isin(true, task.pools[pool]).all() for true, pool in zip(rows["true"], rows["pool"], strict=True)
    )


def test_the_prompts_of_a_class_say_it_and_nothing_else_of_its_kind(tmp_path: Path) -> None:
    task = CLASSES.load_rows(write(tmp_path), tmp_path)
    said = [[parse_caption(prompt).meaning.mentions for prompt in prompts] for prompts in task.texts]
    for noun, of in zip(NOUNS, said, strict=False):
        assert {(m.noun, m.colour, m.size) for (m,) in of} == {(noun, None, None)}
    for colour, of in zip(COLOURS, said[len(NOUNS) :], strict=True):
        assert {(m.noun, m.colour, m.size) for (m,) in of} == {(noun, colour, None) for noun in NOUNS}


def test_where_nothing_is_known_of_scenes_there_is_retrieval_and_no_class(tmp_path: Path) -> None:
    write(tmp_path, scenes=False)
    assert len(RETRIEVAL.load_rows(tmp_path, tmp_path).rows) == 6
    with pytest.raises(DataError, match="shows a single object"):
        CLASSES.load_rows(tmp_path, tmp_path)


def test_a_split_without_pairs_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No pair of split 'train'"):
        RETRIEVAL.load_rows(write(tmp_path), tmp_path, split="train")


@pytest.mark.parametrize("scene", ["{", "[]", '{"things": [1], "background": ""}', None])
def test_a_scene_that_is_none_is_named_with_its_pair(scene: str | None, tmp_path: Path) -> None:
    pairs = read_table(PAIRS, write(tmp_path) / "pairs.parquet")
    odd = Scene((SceneObject("zebra", "red", "small", 0, 0),), "white").to_json() if scene is None else scene
    write_table(PAIRS, pairs.assign(scene=odd), tmp_path / "pairs.parquet")
    with pytest.raises(DataError, match="Pair 'p0' has no scene of the embedded world"):
        CLASSES.load_rows(tmp_path, tmp_path)
