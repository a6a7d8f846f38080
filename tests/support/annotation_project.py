"""A small project: the tables that annotation tasks are made from, with images in shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from annotation_tasks import encoded
from stored_images import stored

from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.contracts import Table
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS

COUNT, CANDIDATES_EACH = 6, 3
KNOWN = {"width": 48, "height": 48, "source": "test", "split": "test"}


def write_project(data: Path) -> Path:
    """Write the tables of stages scenes to assemble, with as many pairs as ``COUNT``; return the folder."""
    pairs = [f"p{n}" for n in range(COUNT)]
    stored(data / "scenes/images.parquet", [image(f"i{n}", n) for n in range(COUNT)])
    names = [f"{pair}-{k}" for pair in pairs for k in range(CANDIDATES_EACH)]
    stored(data / "synthesize/images.parquet", [image(name, 50 + n) for n, name in enumerate(names)])
    _write(
        PAIRS,
        [data / "scenes/pairs.parquet", data / "refine/pairs.parquet"],
        [
            {
                "pair_id": pair,
                "image_id": f"i{n}",
                "caption": f"A red ball {n}.",
                "scene": None,
                "split": "test",
                "source": "x",
            }
            for n, pair in enumerate(pairs)
        ],
    )
    negative = {
        "type": "replace",
        "subtype": "replace_att",
        "generator": "x",
        "seed": 1,
        "attempt": 1,
        "compounds": None,
    }
    _write(
        NEGATIVES,
        data / "refine/negatives.parquet",
        [
            {
                "negative_id": f"{pair}:replace_att",
                "pair_id": pair,
                "negative_caption": f"A blue ball {n}.",
                **negative,
            }
            for n, pair in enumerate(pairs)
        ],
    )
    _write(
        PARAPHRASES,
        [data / "negatives/paraphrases.parquet", data / "refine/paraphrases.parquet"],
        [
            {"pair_id": pair, "caption2": f"There is a red ball {n}.", "generator": "x", "attempts": 1}
            for n, pair in enumerate(pairs)
        ],
    )
    drawn: list[dict[str, Any]] = [
        {
            "negative_id": f"{pair}:replace_att",
            "candidate": k,
            "image_id": f"{pair}-{k}",
            "positive_image_id": None,
        }
        for pair in pairs
        for k in range(CANDIDATES_EACH)
    ]
    more = {"seed": 1, "generator": "x", "prompt": "A blue ball.", "scene": None}
    _write(CANDIDATES, data / "synthesize/candidates.parquet", [{**row, **more} for row in drawn])
    judged = {"faithful": 1.0, "ambiguous": False, "judge_negative": None, "judge_positive": None}
    choices = [{**row, **judged, "chosen_by": None if row["candidate"] else "world"} for row in drawn]
    _write(CHOICES, data / "filter_images/choices.parquet", choices)
    shared = [image(f"i{n}", n) for n in range(COUNT)] + [
        image(f"{pair}-0", 50 + n) for n, pair in enumerate(pairs)
    ]
    stored(data / "assemble/images.parquet", shared)
    _write(
        INSTANCES,
        data / "assemble/instances.parquet",
        [
            {
                "instance_id": f"{pair}:replace_att",
                "image_id": f"i{n}",
                "caption": f"A red ball {n}.",
                "caption2": None,
                "negative_caption": f"A blue ball {n}.",
                "negative_image_id": f"{pair}-0",
                "type": "replace",
                "subtype": "replace_att",
                "split": "test",
                "compounds": None,
            }
            for n, pair in enumerate(pairs)
        ],
    )
    return data


def break_image(index: Path, image_id: str) -> None:
    """Change one byte of an image in its shard."""
    rows = read_table(IMAGES, index).set_index("image_id")
    shard = index.parent / rows.loc[image_id, "shard"]
    data = bytearray(shard.read_bytes())
    data[int(rows.loc[image_id, "offset"]) + 40] ^= 255
    shard.write_bytes(data)


def image(name: str, number: int) -> dict[str, Any]:
    """Return a row of ``stored``."""
    return {"image_id": name, "data": encoded(number), **KNOWN}


def _write(table: Table, paths: Path | list[Path], rows: list[dict[str, Any]]) -> None:
    for path in paths if isinstance(paths, list) else [paths]:
        write_table(table, build_frame(table, rows), path)
