"""Stage ``assemble``: the benchmark and the training set."""

from caramel.config.schema import Config
from caramel.io.image_store import referred
from caramel.runtime.stage_runner import run
from caramel.schemas import tables
from caramel.sources.images.assemble import assemble as join

OUT = "data/assemble"


def assemble(config: Config) -> None:
    """Write data/assemble/{instances,instances_source,images,training}.parquet."""
    made = join(
        tables.read(tables.PAIRS, "data/refine/pairs.parquet"),
        tables.read(tables.NEGATIVES, "data/refine/negatives.parquet"),
        tables.read(tables.PARAPHRASES, "data/refine/paraphrases.parquet"),
        tables.read(tables.CHOICES, "data/filter_images/choices.parquet"),
        *(
            referred(tables.read(tables.IMAGES, f"{stage}/images.parquet"), stage, OUT)
            for stage in ("data/scenes", "data/filter_images")
        ),
        positives=config.assemble.positives,
    )
    tables.write(tables.INSTANCES, made.instances, f"{OUT}/instances.parquet")
    if made.source_form is not None:
        tables.write(tables.INSTANCES, made.source_form, f"{OUT}/instances_source.parquet")
    tables.write(tables.IMAGES, made.images, f"{OUT}/images.parquet")
    tables.write(tables.TRAINING, made.training, f"{OUT}/training.parquet")


if __name__ == "__main__":
    run(
        assemble,
        images_needed={
            f"{OUT}/instances.parquet": tables.INSTANCES,
            f"{OUT}/images.parquet": tables.IMAGES,
            f"{OUT}/training.parquet": tables.TRAINING,
        },
    )
