"""BiVLC (Miranda et al. 2024): SugarCrepe with a generated image for which the negative caption is true."""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.pairs import (
    METRICS,
    Row,
    build_file_rows,
    build_pair_task,
    find_release_folder,
    read_embedded_rows,
)
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons
from caramel.io.readers import read_json_rows
from caramel.io.validators import format_value, read_name_field, read_text_field
from caramel.schemas.columns import SUBTYPES

LAYOUT = """\
  bivlc/test-*.parquet    from huggingface.co/datasets/imirandam/BiVLC (also in bivlc/data); they hold the images
or, with the same fields and images as files:
  bivlc/test.jsonl        {image, caption, negative_caption, negative_image, type, subtype} per line
  bivlc/images/…          the files that image and negative_image name (also in IMAGES)"""
FIELDS = ("caption", "negative_caption", "type", "subtype")


def read_bivlc(data: Path, images: Path) -> Comparisons:
    """Return the task of the Parquet files in ``data``, or of ``test.jsonl`` and a folder of images.

    A COCO image occurs in several rows. The cluster is the image: see ``pairs.list_image_names``.

    Raises:
        DataError: both are missing, or one is broken.
    """
    folder = find_release_folder(data, ("test-*.parquet", "test.jsonl"), ("data",), LAYOUT)
    if any(folder.glob("test-*.parquet")):
        rows = read_embedded_rows(folder, ("image", "negative_image"), FIELDS, LAYOUT)
    else:
        rows = build_file_rows(
            (
                (
                    where,
                    row,
                    read_name_field(row, "image", where),
                    read_name_field(row, "negative_image", where),
                )
                for where, row in read_json_rows(folder / "test.jsonl")
            ),
            folder,
            images,
            ("images",),
        )
    return build_pair_task(
        rows, ("caption", "negative_caption"), lambda n, row: f"bivlc-{n}", _list_subsets, folder
    )


def _list_subsets(row: Row) -> list[str]:
    """Return type and subtype under SugarCrepe's names. The release writes ``replace`` and ``obj``."""
    negative_type, part = (read_text_field(row.fields, name, row.where) for name in ("type", "subtype"))
    if f"{negative_type}_{part}" not in SUBTYPES:
        raise DataError(
            f"{row.where}: type {format_value(negative_type)} has no subtype {format_value(part)}. Known: {', '.join(SUBTYPES)}."
        )
    return [negative_type, f"{negative_type}_{part}"]


BENCHMARK = Benchmark(
    name="bivlc",
    layout=LAYOUT,
    reader=read_bivlc,
    metrics=(*METRICS, "i_pos2t", "i_neg2t", "t_pos2i", "t_neg2i"),
    confirmed=(
        "fields and metrics: README.md, main_evaluation_BiVLC.py and src/CLIP_fine_tuning/CLIP_utils.py of "
        "github.com/IMirandaM/BiVLC; captions, type and subtype of all 2,933 instances: results/BiVLC_ViT-B-32.csv "
        "there, which tests read. The Parquet files themselves were not available"
    ),
)
