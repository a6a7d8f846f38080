"""Stage ``assemble``: build the benchmark and the training set."""

from caramel.config.schema import Config
from caramel.io.image_store import rewrite_shard_paths
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.candidates import CHOICES
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table, write_table, write_table_parts
from caramel.schemas.negatives import PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.training import TRAINING
from caramel.sources.images.assemble import PAIR_COLUMNS
from caramel.sources.images.assemble import assemble_datasets as join

OUT = "data/assemble"


def assemble(config: Config) -> None:
    """Write data/assemble/{instances,instances_source,images,training}.parquet."""
    assembled = join(
        read_table(PAIRS, "data/refine/pairs.parquet", PAIR_COLUMNS),
        "data/refine/negatives.parquet",
        read_table(PARAPHRASES, "data/refine/paraphrases.parquet"),
        read_table(CHOICES, "data/filter_images/choices.parquet"),
        *(
            rewrite_shard_paths(read_table(IMAGES, f"{stage}/images.parquet"), stage, OUT)
            for stage in ("data/scenes", "data/filter_images")
        ),
        positives=config.assemble.positives,
        training=config.assemble.training,
    )
    write_table(INSTANCES, assembled.instances, f"{OUT}/instances.parquet")
    if assembled.source_form is not None:
        write_table(INSTANCES, assembled.source_form, f"{OUT}/instances_source.parquet")
    write_table(IMAGES, assembled.images, f"{OUT}/images.parquet")
    write_table_parts(TRAINING, assembled.training, f"{OUT}/training.parquet", by="pair_id")


if __name__ == "__main__":
    run_stage(
        assemble,
        images_needed={
            f"{OUT}/instances.parquet": INSTANCES,
            f"{OUT}/images.parquet": IMAGES,
            f"{OUT}/training.parquet": TRAINING,
        },
    )
