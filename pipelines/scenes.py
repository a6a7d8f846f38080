"""Stage ``scenes``: read images and true captions, from the embedded world or from a folder."""

from caramel.config.schema import Config
from caramel.io.image_shards import ShardWriter
from caramel.registry import SOURCES
from caramel.runtime.stage_runner import run_stage
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS


def scenes(config: Config) -> None:
    """Write data/scenes/{images,pairs,rejects}.parquet, and the images in data/scenes/images."""
    section = config.scenes
    with ShardWriter("data/scenes/images") as shards:
        source = SOURCES[section.source](
            counts={"train": section.train, "val": section.val, "test": section.test},
            num_objects=section.num_objects,
            allow_unmentioned_objects=section.allow_unmentioned_objects,
            unseen_frac=section.unseen_frac,
            typical_color_prob=section.typical_color_prob,
            absolute_positions=section.absolute_positions,
            group_size=section.group_size,
            data_dir=section.data_dir,
            val_test_frac=section.val_test_frac,
            seed=section.seed,
            put=shards.add_image,
        )
    write_table(IMAGES, build_frame(IMAGES, shards.build_index()), "data/scenes/images.parquet")
    write_table(PAIRS, source.pairs, "data/scenes/pairs.parquet")
    write_table(REJECTS, source.rejects, "data/scenes/rejects.parquet")


if __name__ == "__main__":
    run_stage(scenes)
