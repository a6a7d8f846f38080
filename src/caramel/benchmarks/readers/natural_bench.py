"""NaturalBench-Retrieval (Li et al. 2024): Winoground's form; natural pairs that models confuse.

The questions of NaturalBench itself are another data set: ``natural_bench_questions.py``.
"""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.pairs import METRICS, Row, build_file_rows, build_pair_task, find_release_folder
from caramel.interfaces.benchmark import Benchmark, Comparisons
from caramel.io.readers import read_json_rows
from caramel.io.validators import read_name_field, read_number_field

LAYOUT = """\
  natural_bench/metadata.json    from NaturalBench-Retrieval.zip at huggingface.co/datasets/BaiqiL/NaturalBench
  natural_bench/images/…         from there as well (either also in natural_bench/NaturalBench-Retrieval)"""


def read_natural_bench(data: Path, images: Path) -> Comparisons:
    """Return the task of ``metadata.json`` and its images.

    Raises:
        DataError: the file is missing or broken.
    """
    folder = find_release_folder(data, ("metadata.json",), ("NaturalBench-Retrieval",), LAYOUT)
    rows = build_file_rows(
        (
            (where, row, read_name_field(row, "image_0", where), read_name_field(row, "image_1", where))
            for where, row in read_json_rows(folder / "metadata.json")
        ),
        folder,
        images,
        ("images",),
    )
    return build_pair_task(rows, ("caption_0", "caption_1"), _format_instance_id, lambda row: [], folder)


def _format_instance_id(_: int, row: Row) -> str:
    return f"natural_bench-{read_number_field(row.fields, 'index', row.where)}"


BENCHMARK = Benchmark(
    name="natural_bench",
    layout=LAYOUT,
    reader=read_natural_bench,
    metrics=METRICS,
    confirmed=(
        "the authors' naturalbench_retrieval.py, which the README of github.com/Baiqi-Li/NaturalBench names: "
        "it reads this layout and computes these metrics. The files themselves were not available"
    ),
)
