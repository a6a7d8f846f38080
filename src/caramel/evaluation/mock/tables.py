"""One instance of the benchmarks whose images are in tables: caramel's own, and releases as Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from caramel.evaluation.mock.images import draw_mock_image
from caramel.evaluation.mock.releases import CAT, DOG
from caramel.io.image_shards import ShardWriter
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.pairs import PAIRS
from caramel.sources.world.scenes import COLOURS, NOUNS, Scene, SceneObject

_SOURCE = {"split": "test", "source": "world"}
_SIZE = {"width": 224, "height": 224}


def _write_instances(folder: Path, *names: str) -> None:
    """Write tables of one instance with two images and a paraphrase, under each of these names."""
    row = {
        "instance_id": "1",
        "image_id": "dog",
        "caption": DOG,
        "caption2": "There is a dog on a mat.",
        "negative_caption": CAT,
        "negative_image_id": "cat",
        "type": "replace",
        "subtype": "replace_obj",
        "split": "test",
        "compounds": "seen",
    }
    for name in names:
        write_table(INSTANCES, build_frame(INSTANCES, [row]), folder / f"{name}.parquet")
    _write_images(folder, "dog", "cat")


def _write_pairs(folder: Path) -> None:
    """Write tables of two pairs; the images are said to show a single object of the embedded world."""
    objects = {name: (NOUNS[n], COLOURS[n]) for n, name in enumerate(("first", "second"))}
    rows = [
        {
            "pair_id": name,
            "image_id": name,
            "caption": f"A {colour} {noun}.",
            "scene": Scene((SceneObject(noun, colour, "large", 0, 0),), "white").to_json(),
            **_SOURCE,
        }
        for name, (noun, colour) in objects.items()
    ]
    write_table(PAIRS, build_frame(PAIRS, rows), folder / "pairs.parquet")
    _write_images(folder, *objects)


def _write_images(folder: Path, *names: str) -> None:
    with ShardWriter(folder / "images") as shards:
        for number, name in enumerate(names):
            shards.add_image(name, draw_mock_image(number), f"{name}.png", **_SIZE, **_SOURCE)
    write_table(IMAGES, build_frame(IMAGES, shards.build_index()), folder / "images.parquet")


def _write_parquet(path: Path, texts: Mapping[str, object], images: tuple[str, str]) -> None:
    """Write a Parquet file with one row, whose images are structs of bytes and path."""
    cells = {name: [{"bytes": draw_mock_image(n), "path": f"{n}.png"}] for n, name in enumerate(images)}
    pq.write_table(pa.table({**{name: [value] for name, value in texts.items()}, **cells}), path)


# Benchmark -> writes its files into a folder.
TABLES: Mapping[str, Callable[[Path], None]] = {
    "instances": lambda folder: _write_instances(folder, "instances"),
    "instances_source": lambda folder: _write_instances(folder, "instances_source"),
    "held_out_retrieval": _write_pairs,
    "world_classes": _write_pairs,
    "vismin": lambda folder: _write_parquet(
        folder / "test-0.parquet",
        {"text_0": DOG, "text_1": CAT, "category": "object"},
        ("image_0", "image_1"),
    ),
    "natural_bench_questions": lambda folder: _write_parquet(
        folder / "train-0.parquet",
        {
            "Index": 1,
            "Question_Type": "yes_no",
            **{f"Question_{q}": f"Is there a {noun}?" for q, noun in enumerate(("dog", "cat"))},
            **{f"Image_{i}_Question_{q}": "Yes" if i == q else "No" for i in (0, 1) for q in (0, 1)},
        },
        ("Image_0", "Image_1"),
    ),
}
