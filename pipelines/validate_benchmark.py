"""Stage ``validate_benchmark``: stop before training and scoring if the benchmark has shortcuts or defects."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from caramel.config.schema import Config
from caramel.gates import gates
from caramel.gates.suite_summaries import write_summaries
from caramel.io.image_store import ImageStore
from caramel.io.readers import read_json
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.scores import SCORES
from caramel.schemas.training import TRAINING

INPUTS = Path("data/assemble")
SUMMARY = "data/validate_benchmark/summary.json"


def validate_benchmark(config: Config) -> None:
    """Run the suites on instances, training set, images and blind accuracy, and write their summaries."""
    index = INPUTS / "images.parquet"
    images = read_table(IMAGES, index)
    instances = read_table(INSTANCES, INPUTS / "instances.parquet")
    summaries = gates.validate_benchmark(
        instances,
        None if config.assemble.training == "none" else read_table(TRAINING, INPUTS / "training.parquet"),
        images,
        ImageStore(index, images),
        read_table(SCORES, "data/refine/scores.parquet", only=("negative_id", set(instances["instance_id"]))),
        read_table(SCORES, "data/image_scores/scores.parquet"),
        agreement=pd.DataFrame(
            [*read_json(Path("data/filter_images/metrics.json")).get("people", {}).values()]
        ),
        thresholds=gates.BenchmarkThresholds(**config.validate_benchmark.model_dump()),
        folds=config.scores.folds,
        image_folds=config.image_scores.folds,
        folder=Path("expectations"),
        docs_folder=Path("work/data_docs"),
    )
    write_summaries(summaries, Path(SUMMARY))


if __name__ == "__main__":
    run_stage(validate_benchmark, images_needed={SUMMARY: None})
