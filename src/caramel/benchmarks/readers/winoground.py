"""Winoground (Thrush et al. 2022): two captions of the same words in another order, two images."""

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
  winoground/test-*.parquet    from huggingface.co/datasets/facebook/winoground (also in winoground/data)
or the older form of the same data set:
  winoground/examples.jsonl    (also in winoground/data)
  winoground/images/ex_0_img_0.png …    unpacked from images.zip (also in IMAGES)"""


def read_winoground(data: Path, images: Path) -> Comparisons:
    """Return the task of the Parquet files in ``data``, or of ``examples.jsonl`` and a folder of images.

    Raises:
        DataError: both are missing, or one is broken.
    """
    folder = find_release_folder(data, ("test-*.parquet", "examples.jsonl"), ("data",), LAYOUT)
    if any(folder.glob("test-*.parquet")):
        rows = read_embedded_rows(
            folder,
            ("image_0", "image_1"),
            ("id", "caption_0", "caption_1"),
            LAYOUT,
            optional=("collapsed_tag", "num_main_preds"),
        )
    else:
        rows = build_file_rows(
            (
                (where, row, *(f"{read_name_field(row, name, where)}.png" for name in ("image_0", "image_1")))
                for where, row in read_json_rows(folder / "examples.jsonl")
            ),
            folder,
            images,
            ("images",),
        )
    return build_pair_task(rows, ("caption_0", "caption_1"), _format_instance_id, _list_subsets, folder)


def _format_instance_id(_: int, row: Row) -> str:
    return f"winoground-{read_number_field(row.fields, 'id', row.where)}"


def _list_subsets(row: Row) -> list[str]:
    """Return what was swapped (object, relation or both) and the number of main predicates, if given."""
    subsets = []
    if row.fields.get("collapsed_tag") is not None:
        subsets.append(read_text_field(row.fields, "collapsed_tag", row.where).lower())
    if row.fields.get("num_main_preds") is not None:
        subsets.append(f"main_preds_{read_number_field(row.fields, 'num_main_preds', row.where)}")
    return subsets


BENCHMARK = Benchmark(
    name="winoground",
    layout=LAYOUT,
    reader=read_winoground,
    metrics=METRICS,
    confirmed=(
        "Parquet: the features in the data set's card at huggingface.co/datasets/facebook/winoground; "
        "examples.jsonl: its former loading script winoground.py, and dataset/dataset.py of "
        "github.com/ajd12342/why-winoground-hard; metrics: the card's example and dataset.py of "
        "github.com/linzhiqiu/t2v_metrics. The data set is gated. Its files were not available, but a table of its captions "
        "and tags was (zhuxiangru/Winoground-T2I, data/template/original_winoground_dataset.txt). The first 121 and "
        "last 33 of its 400 rows have the fields and values that are read"
    ),
)
