"""Stage ``pretrain``: train the base CLIP."""

from itertools import chain
from pathlib import Path

from caramel.config.schema import Config
from caramel.interfaces.training_settings import BaseConfig
from caramel.io.files import compute_file_hash
from caramel.io.image_store import ImageStore
from caramel.models.devices import resolve_compute
from caramel.registry import BASES
from caramel.runtime.ray.sharded_map import compute_fingerprint
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.training.recipes.pretrain import FIXED, join_negatives, resolve_steps
from caramel.training.tracked import open_training_run
from caramel.utils.typed_settings import build_settings

INPUTS = [
    "data/scenes/pairs.parquet",
    "data/scenes/images.parquet",
    "data/negatives/negatives.parquet",
]


def pretrain(config: Config) -> None:
    """Write data/base, a checkpoint folder with curves.csv."""
    section = config.pretrain
    pairs = read_table(PAIRS, INPUTS[0])
    images = ImageStore(INPUTS[1], read_table(IMAGES, INPUTS[1]))
    negatives = read_table(NEGATIVES, INPUTS[2], ["pair_id", "subtype", "negative_caption"])
    if section.negatives:
        pairs = join_negatives(pairs, negatives)
    compute = resolve_compute(config.run.device, config.run.precision)
    settings = section.model_dump(exclude={"backend"}) | compute
    given = section.model_dump(exclude={"backend", "pretrained", "negatives", "epochs"}) | compute | FIXED
    given["steps"] = resolve_steps(
        pairs,
        steps=section.steps,
        epochs=section.epochs,
        batch_size=section.batch_size,
        warmup_steps=section.warmup_steps,
    )
    key = compute_fingerprint(
        __name__, section.backend, settings, [compute_file_hash(p) for p in (*INPUTS, section.model)]
    )
    with open_training_run("pretrain", key, settings, INPUTS, Path("data/base")) as out:
        curve = BASES[section.backend](
            pairs,
            images,
            chain(pairs["caption"], negatives.pop("negative_caption")),
            pretrained=section.pretrained,
            settings=build_settings(BaseConfig, {**given, "num_workers": config.run.num_workers}),
            scratch=Path("work/pretrain", key),
            out=out.folder,
            on_points=out.log_points,
        )
        out.write_results(curve)


if __name__ == "__main__":
    run_stage(pretrain, images_needed={"data/base": None})
