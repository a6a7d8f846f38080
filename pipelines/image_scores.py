"""Stage ``image_scores``: score the benchmark's images with attackers that see no caption."""

from __future__ import annotations

from pathlib import Path

from caramel.blind.image.scores import compute_image_scores as attacked
from caramel.config.schema import Config
from caramel.io.files import write_json
from caramel.io.image_store import ImageStore
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table, write_table
from caramel.schemas.scores import SCORES

INPUTS, OUT = Path("data/assemble"), Path("data/image_scores")


def image_scores(config: Config) -> None:
    """Write data/image_scores/{scores,scores_source}.parquet, one per form of the benchmark, and figures.json."""
    forms = {
        name: read_table(INSTANCES, INPUTS / f"{name}.parquet")
        for name in ("instances", "instances_source")
        if (INPUTS / f"{name}.parquet").exists()
    }
    names = {name for rows in forms.values() for name in rows["instance_id"]}
    index = INPUTS / "images.parquet"
    result = attacked(
        forms,
        ImageStore(index, read_table(IMAGES, index)),
        read_table(SCORES, "data/refine/scores.parquet", only=("negative_id", names)),
        **config.image_scores.model_dump(),
        split=config.evaluate.split,
    )
    for name, scores in result.scores.items():
        write_table(SCORES, scores, OUT / f"{name.replace('instances', 'scores')}.parquet")
    write_json(OUT / "figures.json", result.figures)


if __name__ == "__main__":
    run_stage(
        image_scores,
        images_needed={f"{OUT}/scores.parquet": SCORES, f"{OUT}/figures.json": None},
    )
