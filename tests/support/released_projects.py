"""A small project whose data is pinned and can be released: two splits, pictures, and captions that look like markup."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from stored_images import stored

from caramel.io.image_store import rewrite_shard_paths
from caramel.release import pin as pins
from caramel.release.publishing.questions import QUESTIONS
from caramel.schemas.evaluation import METRICS
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.rejects import REJECTS
from caramel.schemas.training import TRAINING

NASTY = '<script>alert("1")</script> | **bold** [x](y) \u2028 {{ a }}: "b"\n---\n- c: &d $e$ `f`'
OF_WORLD = {0: "A blue car.", 3: "A red car."}  # captions of the instances that are of the embedded world
ODD = "../../odd: name#1+"  # of an image
ABOUT = {
    "title": "Small: a <b>set</b>",
    "description": "Made for tests.",
    "licence": "CC-BY-4.0",
    "authors": [{"given": "Ada", "family": "L & L", "orcid": "0000-0002-1825-0097", "affiliation": "Lab"}],
    "contact": "a@b.c",
    "url": "https://example.org/set",
    "answers": {
        question.key: f"Answer <i>{question.number}</i>." for question in QUESTIONS if not question.optional
    },
    "sources": {"x": {"licence": "CC-BY-4.0", "note": "drawn"}, "synthetic": {"licence": "CC0-1.0"}},
}


def picture(seed: int) -> bytes:
    """Return an encoded picture of noise."""
    to = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(to, "JPEG" if seed % 5 == 0 else "PNG")
    return to.getvalue()


def instances() -> pd.DataFrame:
    """Return six instances: two images each, some without a paraphrase or negative image."""
    rows = []
    for n in range(6):
        split = "val" if n == 5 else "test"
        kind = ("replace_obj", "swap_att", "add_obj")[n % 3]
        image = ODD if n == 0 else f"i{n}.png" if n == 1 else f"i{n}"
        caption2 = None if n == 2 else f"Also {n}."
        negative = None if n == 3 else f"n{n}"
        texts = (NASTY if n == 1 else OF_WORLD.get(n, f"A caption {n}."), caption2, f"Not {n}.", negative)
        rows.append(
            (
                f"p{n}:{kind}",
                image,
                *texts,
                kind.split("_")[0],
                kind,
                split,
                "unseen" if n in OF_WORLD else None,
            )
        )
    return build_frame(INSTANCES, rows)


def training() -> pd.DataFrame:
    """Return three rows to train on, with two, one and no picture of a negative."""
    shown = (["n7", "n8"], ["n7", None], [None])
    rows = [
        (
            f"t{n}",
            f"i{n + 7}",
            ("Text 0.", "A red car.", "A car and a blue cup.")[n],
            None if n else "So.",
            ["No."] * len(ids),
            ids,
            ["swap_obj"] * len(ids),
            "train",
        )
        for n, ids in enumerate(shown)
    ]
    return build_frame(TRAINING, rows)


def metrics() -> pd.DataFrame:
    """Return a figure and one that nobody has."""
    rows = [
        ("m", "caramel", "all", "group", 0.5, 0.25, 0.75, 6, 0, 0),
        ("m", "caramel", "all", "tot", None, None, None, 0, 0, 6),
    ]
    return build_frame(METRICS, rows)


def made(root: Path) -> Path:
    """Write such a project, pinned as v1, as if DVC had made its data."""
    place, data = instances(), root / "data"
    train = training()
    split = dict(zip(place["image_id"], place["split"], strict=True))
    shown = place.dropna(subset="negative_image_id")
    split |= dict(zip(shown["negative_image_id"], shown["split"], strict=True))
    names = [*split, *train["image_id"], "n7", "n8"]
    images = [
        {
            "image_id": name,
            "data": picture(number),
            "width": 6,
            "height": 6,
            "source": "synthetic (steps=6)" if name.startswith("n") else "x",
            "split": split.get(name, "train"),
        }
        for number, name in enumerate(names)
    ]
    stored(data / "scenes" / "images.parquet", images)
    index = read_table(IMAGES, data / "scenes" / "images.parquet")
    write_table(
        IMAGES,
        rewrite_shard_paths(index, "data/scenes", "data/assemble"),
        data / "assemble" / "images.parquet",
    )
    write_table(INSTANCES, place, data / "assemble" / "instances.parquet")
    write_table(INSTANCES, place, data / "assemble" / "instances_source.parquet")
    write_table(TRAINING, train, data / "assemble" / "training.parquet")
    write_table(METRICS, metrics(), data / "evaluate" / "metrics.parquet")
    gone = [("p9:swap_obj", "refine", "surplus", "x"), ("p8:swap_obj", "refine", "surplus", "x")]
    write_table(REJECTS, build_frame(REJECTS, gone), data / "refine" / "rejects.parquet")
    pinned(root, "v1")
    (root / "release.yaml").write_text(json.dumps(ABOUT), encoding="utf-8")
    return root


def pinned(root: Path, name: str, **params: Any) -> None:
    """Pin what lies in the project's folders, with further sections of the params."""
    outs = [
        {"path": f"data/{out}", "md5": pins.compute_dvc_hash(root / "data" / out)}
        for out in sorted(path.name for path in (root / "data").iterdir())
    ]
    lock = {"schema": "2.0", "stages": {"all": {"cmd": "x", "outs": outs}}}
    (root / "dvc.lock").write_text(json.dumps(lock), encoding="utf-8")
    (root / "params.yaml").write_text(
        json.dumps({"evaluate": {"n_bootstrap": 100, "seed": 1}, **params}), encoding="utf-8"
    )
    pins.create_pin(name, root)
