"""Stage ``train_generator``: train the text-to-image pipeline that will draw negative images."""

from itertools import chain
from pathlib import Path

from caramel.config.schema import Config
from caramel.interfaces.training_settings import GeneratorConfig
from caramel.io.files import compute_file_hash
from caramel.io.image_store import ImageStore
from caramel.models.devices import resolve_compute
from caramel.registry import GENERATORS
from caramel.runtime.ray.sharded_map import compute_fingerprint
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.sources.world.objects import select_examples
from caramel.training.recipes.text_to_image import FIXED
from caramel.training.tracked import open_training_run
from caramel.utils.typed_settings import build_settings

INPUTS = ["data/scenes/pairs.parquet", "data/scenes/images.parquet", "data/negatives/negatives.parquet"]


def train_generator(config: Config) -> None:
    """Write data/generator, a generator folder with curves.csv."""
    section = config.train_generator
    pairs = read_table(PAIRS, INPUTS[0])
    drawn = select_examples(
        pairs,
        ImageStore(INPUTS[1], read_table(IMAGES, INPUTS[1])),
        method="edit" if config.synthesize.method == "edit" else "draw",
        size=config.synthesize.image_size,
        number=config.scenes.train,
        seed=section.seed,
    )
    negatives = read_table(NEGATIVES, INPUTS[2], ["negative_caption"])
    compute = resolve_compute(config.run.device, config.run.precision)
    settings = section.model_dump(exclude={"backend"}) | compute
    given = section.model_dump(exclude={"backend", "pretrained"}) | compute | FIXED
    given |= {"image_size": drawn.size, "border": drawn.border, "num_workers": config.run.num_workers}
    key = compute_fingerprint(
        __name__,
        section.backend,
        settings,
        [drawn.size, drawn.border, config.synthesize.method, config.scenes.train],
        [compute_file_hash(p) for p in INPUTS],
    )
    with open_training_run("train_generator", key, settings, INPUTS, Path("data/generator")) as out:
        curve = GENERATORS[section.backend](
            drawn.pairs,
            drawn.images,
            chain(pairs["caption"], negatives.pop("negative_caption")),
            pretrained=section.pretrained,
            settings=build_settings(GeneratorConfig, given),
            scratch=Path("work/train_generator", key),
            out=out.folder,
            on_points=out.log_points,
        )
        out.write_results(curve)


if __name__ == "__main__":
    run_stage(train_generator, images_needed={"data/generator": None})
