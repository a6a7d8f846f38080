"""VisMin (Awal et al. 2024): two images and two captions with one minimal change: object, attribute, count, relation.

The captions of the release stand in either order. Which of them is true of which image, and the category, is told
by the authors' file of solutions, row by row in the order of the data set.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from caramel.benchmarks.pairs import METRICS, Row, cell_rows, pair_task
from caramel.benchmarks.public_files import found
from caramel.errors import DataError
from caramel.kinds.benchmark import Benchmark, Comparisons
from caramel.storage.fields import brief, text_field
from caramel.storage.records import csv_rows

SOLUTIONS = "sim_solution.csv"
LAYOUT = f"""\
  vismin/*.parquet            from the branch refs/convert/parquet of huggingface.co/datasets/mair-lab/vismin-bench,
                              folder default/test: the same rows as its Arrow files; the images are inside
  vismin/{SOLUTIONS}     from vismin-bench/solutions of github.com/rabiulcste/vismin"""
# What the solutions say of the captions: in the order of the images, or the other way round.
STRAIGHT = ("T0_I0 > T1_I0 & T1_I1 > T0_I1", "T0_I0 > T0_I1 & T1_I1 > T1_I0")
CROSSED = ("T1_I0 > T0_I0 & T0_I1 > T1_I1", "T0_I1 > T0_I0 & T1_I0 > T1_I1")
TEXTS = ("text_0", "text_1")


def read_vismin(data: Path, images: Path) -> Comparisons:
    """Return the task of the Parquet files in ``data`` and of their solutions.

    Raises:
        DataError: one is missing or broken, or they have not the same number of rows.
    """
    rows = cell_rows(data, ("image_0", "image_1"), TEXTS, LAYOUT, pattern="*.parquet")
    solutions = list(csv_rows(found(data, [SOLUTIONS], LAYOUT)[0], ["Text", "Image", "category"]))
    if len(rows) != len(solutions):
        raise DataError(
            f"{str(data)!r} holds {len(rows)} rows and {len(solutions)} solutions. They belong together row by row: "
            f"download both again."
        )
    ordered = [
        row._replace(fields=_ordered(row, where, solution))
        for row, (where, solution) in zip(rows, solutions, strict=True)
    ]
    return pair_task(ordered, TEXTS, lambda n, row: f"vismin-{n}", lambda row: [row.fields["category"]], data)


def _ordered(row: Row, where: str, solution: Mapping[str, str]) -> dict[str, object]:
    """Return the captions of a row in the order of its images, and its category."""
    said = tuple(" ".join(solution[name].split()) for name in ("Text", "Image"))
    if said not in (STRAIGHT, CROSSED):
        raise DataError(
            f"{where}: columns 'Text' and 'Image' must be {brief(STRAIGHT)} or {brief(CROSSED)}, not {brief(said)}."
        )
    texts = [row.fields[name] for name in TEXTS]
    category = text_field(solution, "category", where)
    return {**dict(zip(TEXTS, texts if said == STRAIGHT else texts[::-1], strict=True)), "category": category}


BENCHMARK = Benchmark(
    name="vismin",
    layout=LAYOUT,
    reader=read_vismin,
    metrics=METRICS,
    confirmed=(
        "github.com/rabiulcste/vismin: vismin-bench/eval.py (columns), metric.py (metrics by category, pairing in order) "
        "and solutions/sim_solution.csv, which was at hand; the files of huggingface.co/datasets/mair-lab/vismin-bench "
        "(Arrow, and their conversion to Parquet) were seen by name alone"
    ),
)
