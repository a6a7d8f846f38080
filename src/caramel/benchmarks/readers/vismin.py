"""VisMin (Awal et al. 2024): two images and two captions with one minimal change.

The change is of an object, an attribute, a count or a relation.

The release was issued twice:

- January 2025 (current): rows have a category, and the first caption is true of the first image. The authors'
  metric compares them in this order, without a file of solutions.
- November 2024 (first): the captions came in either order, and ``sim_solution.csv`` said which.

No column tells the two issues apart, and the old solutions would swap 1,020 of the current 2,084 rows. A
folder that holds the old solutions is therefore refused.
"""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.pairs import METRICS, build_pair_task, find_release_folder, read_embedded_rows
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons
from caramel.io.validators import read_text_field

OLD_SOLUTIONS = "sim_solution.csv"
PATTERN = "*.parquet"
LAYOUT = """\
  vismin/*.parquet    huggingface.co/datasets/mair-lab/vismin-bench as Parquet (also in vismin/data): from its branch
                      refs/convert/parquet, folder default/test, or written by `to_parquet` of the package datasets;
                      they hold the images"""
TEXTS = ("text_0", "text_1")


def read_vismin(data: Path, images: Path) -> Comparisons:
    """Return the task of the Parquet files in ``data``.

    Raises:
        DataError: no file exists, one is broken, or the solutions of the first issue are beside them.
    """
    folder = find_release_folder(data, (PATTERN,), ("data",), LAYOUT)
    for path in dict.fromkeys((data / OLD_SOLUTIONS, folder / OLD_SOLUTIONS)):
        if path.exists():
            raise DataError(
                f"{str(path)!r} belongs to VisMin's first issue (November 2024). The current rows (January 2025) are in order: "
                f"swapped by that file, a perfect model would get 51.06 %. Remove it, and use the current rows:\n{LAYOUT}"
            )
    rows = read_embedded_rows(folder, ("image_0", "image_1"), (*TEXTS, "category"), LAYOUT, pattern=PATTERN)
    return build_pair_task(
        rows,
        TEXTS,
        lambda n, row: f"vismin-{n}",
        lambda row: [read_text_field(row.fields, "category", row.where)],
        folder,
    )


BENCHMARK = Benchmark(
    name="vismin",
    layout=LAYOUT,
    reader=read_vismin,
    metrics=METRICS,
    confirmed=(
        "github.com/rabiulcste/vismin, folder vismin-bench, both issues: eval.py (columns, category) and metric.py (the current "
        "one compares rows in order, by category). The data of huggingface.co/datasets/mair-lab/vismin-bench were not available"
    ),
)
