"""Measures of forgetting on the source's own held-out images: retrieval, and classes of the embedded world.

A fine-tuned model may have lost what these two tasks measure.

``held_out_retrieval`` ranks as on COCO (``retrieval.py``): an image among all captions, and a caption among
all images. Captions with the same words are one candidate, which is true of every image that has it.

``world_classes`` is zero-shot classification (Radford et al. 2021) of images of the embedded world that show
a single object. The classes are its nouns and, separately, its colours. A class is represented by the
averaged embeddings (``ranking.grouped``) of all sentences of the world's language on one object that state
the class. For a noun these are the sentences without a colour; for a colour they are the sentences of every
noun. No sentence states a position. Classes and sentences come from the language, none from a split.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.interfaces.benchmark import RANKING_COLUMNS, Benchmark, ImageFile, Rankings
from caramel.io.validators import format_value
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.schemas.pairs import PAIRS
from caramel.sources.world.grammar import PATTERNS, Reading, realise_caption
from caramel.sources.world.scenes import COLOURS, NOUNS, Meaning, Mention, Scene, SceneObject
from caramel.utils.hashing import compute_stable_keys

FOLDER = "pairs.parquet and images.parquet as `dvc repro` writes them into data/scenes"


def read_held_out(
    data: Path, images: Path, split: str = "test", count: int | None = None, seed: int = 0
) -> Rankings:
    """Return the retrieval of captions by images and of images by captions, all in one pool.

    Args:
        data: folder of tables ``pairs`` and ``images``.
        images: not used: the images are in their table.
        split: split of the pairs.
        count: number of images, drawn by name; None: all.
        seed: seed of the draw.

    Raises:
        DataError: a table is missing or broken, or no image of the split is available.
    """
    pairs = _load_pairs(data, split, count, seed)
    names = list(dict.fromkeys(pairs["image_id"]))
    texts = list(dict.fromkeys(pairs["caption"]))
    at_image, at_text = ({name: i for i, name in enumerate(items)} for items in (names, texts))
    rows: list[tuple[object, ...]] = []
    for name, captions in pairs.groupby("image_id", sort=False)["caption"]:
        true = sorted({at_text[caption] for caption in captions})
        rows.append((f"i2t/{name}", name, ["i2t"], "i2t", at_image[name], 0, true))
    for caption, caption_pairs in pairs.groupby("caption", sort=False):
        true = sorted({at_image[name] for name in caption_pairs["image_id"]})
        first = caption_pairs.iloc[0]
        rows.append((f"t2i/{first['pair_id']}", first["image_id"], ["t2i"], "t2i", at_text[caption], 1, true))
    return Rankings(
        pd.DataFrame(rows, columns=list(RANKING_COLUMNS)),
        [ImageFile(str(data / "images.parquet"), name=name) for name in names],
        [(text,) for text in texts],
        [np.arange(len(texts)), np.arange(len(names))],
    )


def read_world_classes(
    data: Path, images: Path, split: str = "test", count: int | None = None, seed: int = 0
) -> Rankings:
    """Return the classification of single-object images by noun and by colour.

    The arguments are those of ``read_held_out``.

    Raises:
        DataError: a table is missing or broken, or no single-object image is available.
    """
    pairs = select_single_object_pairs(data, split, count, seed)
    if pairs.empty:
        raise DataError(
            f"No image of split {split!r} in {str(data)!r} shows a single object of the embedded world, so nothing can be "
            f"classified. Set scenes.source = 'world' with 1 among scenes.num_objects, or leave 'world_classes' out."
        )
    classes: dict[str, tuple[str, ...]] = {
        **{noun: tuple(_list_sentences([Mention(noun)])) for noun in NOUNS},
        **{colour: tuple(_list_sentences([Mention(n, colour) for n in NOUNS])) for colour in COLOURS},
    }
    at = {name: i for i, name in enumerate(classes)}
    rows = [
        (f"{task}/{row.image_id}", row.image_id, [task], "i2t", image, pool, [at[getattr(obj, task)]])
        for image, row in enumerate(pairs.itertuples())
        for obj in _parse_scene_objects(str(row.pair_id), str(row.scene))
        for pool, task in enumerate(("noun", "colour"))
    ]
    return Rankings(
        pd.DataFrame(rows, columns=list(RANKING_COLUMNS)),
        [ImageFile(str(data / "images.parquet"), name=name) for name in pairs["image_id"]],
        list(classes.values()),
        [np.array([at[name] for name in names]) for names in (NOUNS, COLOURS)],
    )


def select_single_object_pairs(data: Path, split: str, count: int | None, seed: int) -> pd.DataFrame:
    """Return one pair for each single-object image of the split; none if no scene is known."""
    pairs = _load_pairs(data, split, count, seed).drop_duplicates("image_id")
    known = pairs[pairs["scene"].notna() & (pairs["source"] == "world")]
    objects = [
        _parse_scene_objects(pair, scene)
        for pair, scene in zip(known["pair_id"], known["scene"], strict=True)
    ]
    return known[[len(scene_objects) == 1 for scene_objects in objects]]


def _parse_scene_objects(pair_id: str, scene: str) -> tuple[SceneObject, ...]:
    """Return the objects of a pair's scene. Raise DataError if it is not a scene of the world."""
    try:
        objects = Scene.from_json(scene).things
    except (ValueError, TypeError, KeyError, RecursionError):
        objects = None
    if objects is None or any(obj.noun not in NOUNS or obj.colour not in COLOURS for obj in objects):
        raise DataError(
            f"Pair {format_value(pair_id)} has no scene of the embedded world: {format_value(scene)}. Run `dvc repro scenes`."
        )
    return objects


def _list_sentences(mentions: list[Mention]) -> list[str]:
    """Return every sentence on one object for each of these mentions."""
    patterns = range(len(PATTERNS[1, 0]))
    return [
        realise_caption(Reading(Meaning((mention,)), pattern)) for mention in mentions for pattern in patterns
    ]


def _load_pairs(data: Path, split: str, count: int | None, seed: int) -> pd.DataFrame:
    """Return the pairs of some images of a split, for images that are available."""
    pairs = read_table(PAIRS, data / "pairs.parquet")
    available = {*read_table(IMAGES, data / "images.parquet", ["image_id"])["image_id"]}
    pairs = pairs[(pairs["split"] == split) & pairs["image_id"].isin(available)]
    if pairs.empty:
        raise DataError(f"No pair of split {split!r} has an image in {str(data)!r}: nothing can be ranked.")
    if count is not None:
        names = np.array(sorted(set(pairs["image_id"])), dtype=object)
        drawn = names[np.argsort(compute_stable_keys(names.tolist(), seed), kind="stable")[:count]]
        pairs = pairs[pairs["image_id"].isin(set(drawn))]
    return pairs


RETRIEVAL = Benchmark(
    name="held_out_retrieval",
    layout=FOLDER,
    reader=read_held_out,
    metrics=("recall@1", "recall@5"),
    confirmed="the contract in src/caramel/schemas",
)
CLASSES = Benchmark(
    name="world_classes",
    layout=FOLDER,
    reader=read_world_classes,
    metrics=("recall@1",),
    confirmed="the contract in src/caramel/schemas, and the language of src/caramel/sources/world",
    macro=("noun", "colour").__contains__,
)
