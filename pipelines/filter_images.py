"""Stage ``filter_images``: choose the best faithful candidate that is not ambiguous, or none."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.annotation.agreement.decision_agreement import log_agreement, summarise_decisions
from caramel.annotation.agreement.decision_files import read_decisions, require_current_candidates
from caramel.config.schema import Config
from caramel.config.validate import PEOPLE
from caramel.interfaces.judge import JudgedImages
from caramel.io.files import write_json
from caramel.io.image_store import ImageStore, rewrite_shard_paths
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table, write_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.images.calibration import SPLIT
from caramel.sources.images.filters import FilterSettings, calibrate_and_filter
from caramel.sources.images.judge_specs import load_judge
from caramel.sources.images.label_calibration import build_labels_of_decisions, read_labels
from caramel.sources.images.people_judge import list_judged_contents

OUT, DRAWN, SOURCE = (Path("data", stage) for stage in ("filter_images", "synthesize", "scenes"))


def filter_images(config: Config) -> None:
    """Write data/filter_images/{choices,images,rejects}.parquet and metrics.json."""
    section = config.filter_images
    pairs = read_table(PAIRS, "data/refine/pairs.parquet")
    read_negatives = partial(read_table, NEGATIVES, "data/refine/negatives.parquet")
    candidates = read_table(CANDIDATES, DRAWN / "candidates.parquet")
    images = read_table(IMAGES, DRAWN / "images.parquet")
    source_images = read_table(IMAGES, SOURCE / "images.parquet")
    negatives = read_negatives(only=("negative_id", set(candidates["negative_id"])))
    judged = JudgedImages(config.annotation.images_dir, candidates, images, negatives, pairs, source_images)
    settings: dict[str, Any] = {
        "checkpoint": "data/base",
        "device": config.run.device,
        "allow_unmentioned_objects": config.scenes.allow_unmentioned_objects,
        "judged": judged,
    }
    filtered = calibrate_and_filter(
        candidates,
        images,
        ImageStore(DRAWN / "images.parquet", images),
        negatives,
        pairs,
        source_files=ImageStore(SOURCE / "images.parquet", source_images),
        calibration_negatives=read_negatives(
            only=("pair_id", set(pairs.loc[pairs["split"] == SPLIT, "pair_id"]))
        ),
        judge=load_judge(section.judge, **settings),
        ambiguity_judge=load_judge(section.ambiguity, **settings) if section.ambiguity else None,
        second_judge=load_judge(section.second_judge, **settings) if section.second_judge else None,
        settings=FilterSettings(
            faithfulness_threshold=section.faithfulness_threshold,
            margin=section.margin,
            keep_ambiguous=section.keep_ambiguous,
            ambiguity_test=section.ambiguity_test,
            labels=_read_labels(
                section.calibrate_on, config.annotation.images_dir, candidates, images, negatives
            ),
        ),
        seed=config.synthesize.seed,
    )
    write_table(CHOICES, filtered.choices, OUT / "choices.parquet")
    write_table(IMAGES, rewrite_shard_paths(filtered.images, DRAWN, OUT), OUT / "images.parquet")
    write_table(REJECTS, filtered.rejects, OUT / "rejects.parquet")
    metrics = filtered.metrics
    if PEOPLE in (section.judge, section.ambiguity):
        agreement = summarise_decisions(config.annotation.images_dir, list_judged_contents(judged))
        log_agreement(config.annotation.images_dir, agreement)
        metrics["people"] = {record["task"]: record for record in agreement}
    write_json(OUT / "metrics.json", metrics)


def _read_labels(
    calibrate_on: str,
    folder: str,
    candidates: pd.DataFrame,
    images: pd.DataFrame,
    negatives: pd.DataFrame,
) -> pd.DataFrame | None:
    """Return the labels on which judges are calibrated; None: pairs of the val split.

    Raises:
        DataError: there are none, or people decided on other images than the candidates.
    """
    if calibrate_on == "labels":
        return read_labels(folder, images)
    if calibrate_on == "decisions":
        decisions = read_decisions(folder, "choose")
        require_current_candidates(decisions, candidates, images)
        return build_labels_of_decisions(decisions, candidates, negatives)
    return None


if __name__ == "__main__":
    run_stage(
        filter_images,
        images_needed={
            "data/filter_images/choices.parquet": CHOICES,
            "data/filter_images/images.parquet": IMAGES,
            "data/filter_images/rejects.parquet": REJECTS,
            "data/filter_images/metrics.json": None,
        },
    )
