"""What the stage ``filter_images`` reads, of the small world of the tests; all its images are of the val split."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stored_images import stored

from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS

ROOT = Path(__file__).parents[2]


def write_filter_inputs(world: Any, files: Mapping[str, bytes], clip_folder: Path, folder: Path) -> None:
    """Write the tables and images of 20 negatives with a candidate each, the base model and the profiles."""
    source, written = world
    negatives = written.negatives.drop_duplicates("pair_id").head(20)
    drawn = dict(zip(negatives["negative_id"], files.values(), strict=False))
    candidates = [
        {"negative_id": name, "image_id": name, "candidate": 0, "seed": 1, "generator": "g", "prompt": "p"}
        for name in drawn
    ]
    size = {"width": 48, "height": 48, "source": "world", "split": "val"}
    for stage, images in (("scenes", files), ("synthesize", drawn)):
        rows = [{"image_id": name, "data": data, **size} for name, data in images.items()]
        stored(folder / "data" / stage / "images.parquet", rows)
    for table, content, path in (
        (PAIRS, source.pairs.assign(split="val"), "refine/pairs"),
        (NEGATIVES, written.negatives, "refine/negatives"),
        (CANDIDATES, candidates, "synthesize/candidates"),
    ):
        write_table(table, build_frame(table, content), folder / "data" / f"{path}.parquet")
    shutil.copytree(clip_folder, folder / "data" / "base")
    shutil.copytree(ROOT / "params", folder / "params")
