"""Measure calibrated and uncalibrated judges of images on the embedded world: `python bench/judges.py PROJECT`.

PROJECT has a finished run of the default profile. Its CLIP models judge the drawn negative images of the test split,
each with its negative caption and with its positive caption. The exact reading says which of these captions are true.
Each judge accepts from one of these thresholds:

    uncalibrated    0.5, the middle of the scale
    val pairs       `calibrate_on: val`: source images of val with a caption and with its hard negative
    labels          `calibrate_on: labels`: labels of drawn images of val, by the exact reading
    labels, 10 % wrong   the same, a tenth of them turned around, as careless people would give them

Printed are precision, recall and yield (the share accepted), and in brackets what the calibration itself foretold.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np
import pandas as pd

from caramel.io.image_store import ImageStore, LazySequence
from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.sources.images.calibration import Calibration, calibrate_threshold
from caramel.sources.images.judges import ClipJudge, ReadingJudge
from caramel.sources.images.label_calibration import calibrate_on_labels

MODELS = ("base", "finetune/infonce-11", "finetune/trohn_img-11")
WRONG = 0.1  # share of labels that are turned around


def build_labels(rows: pd.DataFrame, images: Mapping[str, bytes]) -> pd.DataFrame:
    """Return image_id, caption and fits (exact) of drawn negative images with both captions."""
    both = pd.concat(
        [
            rows[["image_id", name]].set_axis(["image_id", "caption"], axis=1)
            for name in ("negative_caption", "caption")
        ],
        ignore_index=True,
    )
    exact = ReadingJudge(allow_unmentioned_objects=False)
    read = LazySequence(images.__getitem__, both["image_id"].tolist())
    return both.assign(fits=exact.score_match(read, both["caption"].tolist()) == 1)


def format_quality(accepted: np.ndarray, truth: np.ndarray, foretold: Calibration | None) -> str:
    """Return precision, recall and yield in per cent, with those of a calibration in brackets."""
    shares = truth[accepted].mean() if accepted.any() else np.nan, accepted[truth].mean(), accepted.mean()
    told = (None,) * 3 if foretold is None else (foretold.precision, foretold.recall, foretold.passed)
    cells = [
        f"{100 * share:5.1f}" + ("" if other is None else f" ({100 * other:.1f})")
        for share, other in zip(shares, told, strict=True)
    ]
    return " | ".join(cells)


@click.command(help=__doc__)
@click.argument("project", default=".", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--labels", "n_labels", default=400, show_default=True, help="Labelled images and captions of val."
)
@click.option("--seed", default=0, show_default=True, help="Random seed of draws and folds.")
def main(project: str, n_labels: int, seed: int) -> None:
    """Print a table of judges, thresholds and their quality."""
    data, started, rng = Path(project, "data"), time.monotonic(), np.random.default_rng(seed)
    pairs = read_table(PAIRS, data / "refine/pairs.parquet")
    negatives = read_table(NEGATIVES, data / "refine/negatives.parquet")
    stores = {}
    for stage in ("scenes", "synthesize"):
        index = data / stage / "images.parquet"
        stores[stage] = ImageStore(index, read_table(IMAGES, index))
    candidates = read_table(CANDIDATES, data / "synthesize/candidates.parquet")
    rows = (
        candidates[candidates["candidate"] == 0].merge(negatives, on="negative_id").merge(pairs, on="pair_id")
    )
    rows = rows[rows["type"] != "add"].drop(columns="image_id_y").rename(columns={"image_id_x": "image_id"})
    test, val = (
        build_labels(rows[rows["split"] == split], stores["synthesize"]) for split in ("test", "val")
    )
    val = val.sample(min(n_labels, len(val)), random_state=seed).reset_index(drop=True)
    turned = val.assign(fits=val["fits"] ^ (rng.random(len(val)) < WRONG))
    print(
        f"{len(test)} images and captions of test, {100 * test['fits'].mean():.1f} % true; {len(val)} labels of val\n"
    )
    print("| judge | calibrated on | least score | precision | recall | yield |\n|---|---|---|---|---|---|")
    for model in MODELS:
        judge = ClipJudge(str(data / model), "cpu")
        scores = judge.score_match(
            LazySequence(stores["synthesize"].__getitem__, test["image_id"].tolist()),
            test["caption"].tolist(),
        )
        calibrations = {
            "uncalibrated": None,
            "val pairs": calibrate_threshold(judge, pairs, negatives, stores["scenes"], seed=seed),
            "labels": calibrate_on_labels(judge, val, stores["synthesize"], seed=seed),
            "labels, 10 % wrong": calibrate_on_labels(judge, turned, stores["synthesize"], seed=seed),
        }
        for name, calibration in calibrations.items():
            threshold = 0.5 if calibration is None else calibration.threshold
            quality = format_quality(scores >= threshold, test["fits"].to_numpy(), calibration)
            print(f"| {model.rpartition('/')[2]} | {name} | {threshold:.3f} | {quality} |", flush=True)
    print(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
