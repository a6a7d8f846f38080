"""Stage ``filter_images``: the best faithful candidate or none, and nothing ambiguous."""

from pathlib import Path

import pandas as pd

from caramel.config.schema import Config
from caramel.interfaces.judge import Judge
from caramel.io.files import write_json
from caramel.io.image_store import ImageStore, rewrite_shard_paths
from caramel.registry import JUDGES
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.candidates import CANDIDATES, CHOICES
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table, write_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.images.calibration import SPLIT, Calibration, calibrate_threshold, can_calibrate
from caramel.sources.images.filters import filter_images as choose


def read_images(stage: str) -> tuple[Path, pd.DataFrame]:
    """Return the path of a stage's table ``images``, and the table."""
    path = Path("data", stage, "images.parquet")
    return path, read_table(IMAGES, path)


def filter_images(config: Config) -> None:
    """Write data/filter_images/{choices,images,rejects}.parquet and metrics.json."""
    section, out = config.filter_images, Path("data/filter_images")

    def load_judge(name: str) -> Judge:
        return JUDGES[name](
            checkpoint="data/base",
            device=config.run.device,
            allow_unmentioned_objects=config.scenes.allow_unmentioned_objects,
        )

    pairs = read_table(PAIRS, "data/refine/pairs.parquet")
    of_val = set(pairs.loc[pairs["split"] == SPLIT, "pair_id"])
    negatives = read_table(NEGATIVES, "data/refine/negatives.parquet", only=("pair_id", of_val))

    def calibrate_judge(judge: Judge) -> Calibration:
        return calibrate_threshold(
            judge, pairs, negatives, ImageStore(*read_images("scenes")), seed=config.synthesize.seed
        )

    decide, calibration, least = load_judge(section.judge), None, section.faithfulness_threshold
    if least is None:
        calibration = calibrate_judge(decide)
        least = calibration.threshold
    second = load_judge(section.second_judge) if section.second_judge else None
    index, drawn = read_images("synthesize")
    candidates = read_table(CANDIDATES, "data/synthesize/candidates.parquet")
    with_candidates = ("negative_id", set(candidates["negative_id"]))
    filtered = choose(
        candidates,
        drawn,
        ImageStore(index, drawn),
        read_table(NEGATIVES, "data/refine/negatives.parquet", only=with_candidates),
        pairs,
        judge=decide,
        second_judge=second,
        faithfulness_threshold=least,
        margin=section.margin,
        keep_ambiguous=section.keep_ambiguous,
        calibration=calibration,
        second_calibration=calibrate_judge(second) if second and can_calibrate(pairs, negatives) else None,
    )
    write_table(CHOICES, filtered.choices, out / "choices.parquet")
    write_table(IMAGES, rewrite_shard_paths(filtered.images, index.parent, out), out / "images.parquet")
    write_table(REJECTS, filtered.rejects, out / "rejects.parquet")
    write_json(out / "metrics.json", filtered.metrics)


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
