"""Measure what each fine-tuning arm gains by subtype, and its training cost: `python bench/finetune_arms.py`.

Needs the stages up to `assemble`. Each arm is trained with the settings of section `finetune`, changed by
`--set KEY=VALUE`, and scored on the instances of a split. Printed are Group in per cent by subtype (chance
16.7), its curve on val, and the CPU seconds of one training. The default split is val, because settings must
not be chosen on test instances. For another draw of the world, run the stages with other seeds in another
folder and pass it as `--data`.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from arms import score_group, write_rows

from caramel.config.schema import load_config
from caramel.io.image_store import ImageStore
from caramel.models.devices import resolve_compute
from caramel.models.open_clip.checkpoints import load_encoder
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.training.distributed import ALONE
from caramel.training.recipes.finetune_trial import CHECKPOINT, train_variant
from caramel.training.variants import GRID_KEYS

ARMS = ("infonce", "pairs_unpaired", "shuffled", "trohn_text", "negative_images", "trohn_img")
FORMS = ("instances", "instances_source")


def compute_group(folder: Path, instances: pd.DataFrame, pictures: Mapping[str, bytes]) -> pd.Series[float]:
    """Return a checkpoint's Group in per cent by subtype, and over all except *add*."""
    encoder = load_encoder(str(folder), device="cpu", precision="fp32", name="arm")
    captions = [instances[column] for column in ("caption", "negative_caption")]
    images = [[pictures[name] for name in instances[column]] for column in ("image_id", "negative_image_id")]
    right = score_group(encoder, captions, images)
    group_scores = right.groupby(instances["subtype"].to_numpy()).mean()
    group_scores["without_add"] = right[~instances["subtype"].str.startswith("add").to_numpy()].mean()
    return group_scores.round(1)


def score_checkpoint(folder: Path, data: Path, split: str) -> dict[str, Any]:
    """Return ``compute_group`` for both forms of the benchmark; for the second form only ``without_add``."""
    index = data / "assemble/images.parquet"
    pictures = ImageStore(index, read_table(IMAGES, index))
    group_by_form = {}
    for form in FORMS:
        rows = read_table(INSTANCES, data / f"assemble/{form}.parquet")
        group_by_form[form] = compute_group(
            folder, rows[rows["split"] == split].reset_index(drop=True), pictures
        )
    return {**group_by_form[FORMS[0]], "source_form": group_by_form[FORMS[1]]["without_add"]}


def run_arm(variant: str, seed: int, data: Path, settings: dict[str, Any], split: str) -> dict[str, Any]:
    """Train an arm once and return its row of the table."""
    with tempfile.TemporaryDirectory() as scratch:
        start = time.process_time()
        result = train_variant(
            ALONE,
            lambda points: None,
            point={"variant": variant, "seed": seed},
            scratch=scratch,
            base=str(data / "base"),
            rows=str(data / "assemble/training.parquet"),
            images=str(data / "assemble/images.parquet"),
            common=settings,
            num_workers=0,
        )
        seconds = time.process_time() - start
        scored = score_checkpoint(Path(scratch, CHECKPOINT), data, split)
    on_val = [round(100 * value, 1) for _, name, value in result["curve"] if name == result["select"]]
    return {"arm": variant, "seed": seed, **scored, "on_val": on_val, "cpu_s": round(seconds, 1)}


@click.command()
@click.option("--data", default="data", show_default=True, type=click.Path(path_type=Path))
@click.option("--only", multiple=True, help="Arms. Default: all.")
@click.option("--seeds", default=1, show_default=True, help="Number of trainings per arm.")
@click.option("--split", default="val", show_default=True)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="A setting, as JSON.")
@click.option("--out", default="work/finetune_arms.csv", show_default=True, type=click.Path(path_type=Path))
def main(
    data: Path, only: tuple[str, ...], seeds: int, split: str, changes: tuple[str, ...], out: Path
) -> None:
    """Print and write the table."""
    config = load_config()
    settings = config.finetune.model_dump(exclude=set(GRID_KEYS)) | {"negatives": None, "wise_ft_alphas": []}
    settings |= resolve_compute(config.run.device, config.run.precision)
    settings |= {key: json.loads(value) for key, _, value in (change.partition("=") for change in changes)}
    base = {"arm": "base", "seed": np.nan, **score_checkpoint(data / "base", data, split)}
    trials = itertools.product(range(21, 21 + seeds), only or ARMS)
    arms = (run_arm(variant, seed, data, settings, split) for seed, variant in trials)
    write_rows(itertools.chain([base], arms), out)


if __name__ == "__main__":
    main()
