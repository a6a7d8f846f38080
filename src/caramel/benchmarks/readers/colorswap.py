"""ColorSwap (Burapacheep et al. 2024): Winoground's form; the captions swap the colours of two objects."""

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
from caramel.interfaces.benchmark import Benchmark, Comparisons
from caramel.io.readers import read_json_rows
from caramel.io.validators import read_name_field, read_number_field, read_text_field

LAYOUT = """\
  colorswap/test-*.parquet    from huggingface.co/datasets/stanfordnlp/colorswap (also in colorswap/data)
or the form that github.com/Top34051/colorswap links to:
  colorswap/test.json         (also in colorswap/data)
  colorswap/images/img_0_1.png …    unpacked from images.zip (also in IMAGES)"""
SOURCES = ("image_source", "caption_source")


def read_colorswap(data: Path, images: Path) -> Comparisons:
    """Return the task of the test split: Parquet files in ``data``, or ``test.json`` and its images.

    Raises:
        DataError: both are missing, or one is broken.
    """
    folder = find_release_folder(data, ("test-*.parquet", "test.json"), ("data",), LAYOUT)
    if any(folder.glob("test-*.parquet")):
        fields = ("id", "caption_1", "caption_2")
        rows = read_embedded_rows(folder, ("image_1", "image_2"), fields, LAYOUT, optional=SOURCES)
    else:
        rows = build_file_rows(
            (
                (where, row, read_name_field(row, "image_1", where), read_name_field(row, "image_2", where))
                for where, row in read_json_rows(folder / "test.json")
            ),
            folder,
            images,
            ("data",),
        )
    return build_pair_task(rows, ("caption_1", "caption_2"), _format_instance_id, _list_subsets, folder)


def _format_instance_id(_: int, row: Row) -> str:
    return f"colorswap-{read_number_field(row.fields, 'id', row.where)}"


def _list_subsets(row: Row) -> list[str]:
    """Return the source of the images and of the captions, where the release gives it."""
    return [
        f"{name}_{read_text_field(row.fields, name, row.where)}"
        for name in SOURCES
        if row.fields.get(name) is not None
    ]


BENCHMARK = Benchmark(
    name="colorswap",
    layout=LAYOUT,
    reader=read_colorswap,
    metrics=METRICS,
    confirmed=(
        "test.json: README.md of github.com/Top34051/colorswap; Parquet: the columns that public code reads "
        "from stanfordnlp/colorswap; metrics: the paper, and vlm_eval.py of that repository. The data set is "
        "gated. Its files were not available, but captions and image names in the authors' results were, in vlm_results of "
        "that repository"
    ),
)
