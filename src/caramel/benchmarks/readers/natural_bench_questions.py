"""NaturalBench (Li et al. 2024): two questions on two images, each with another answer on either image.

An instance is a question with its answer on each of the two images, as one text each: ``i2t`` is the authors' Q-Acc,
the answer that scores higher being the model's, and the mean of ``i_pos2t`` and ``i_neg2t`` their Acc. I-Acc and
G-Acc, which join the two questions of a pair, are not given.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from caramel.benchmarks.pairs import Row, cell_rows, pair_task, release_folder
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons
from caramel.io.validators import brief, number_field, text_field

LAYOUT = """\
  natural_bench_questions/train-*.parquet    from huggingface.co/datasets/BaiqiL/NaturalBench (also in
                                             natural_bench_questions/data); the images are inside"""
ANSWERS = {"yes_no": ("Yes", "No"), "multiple_choice": ("A", "B")}  # by type of the question
TYPE = "Question_Type"
FIELDS = ("Index", TYPE, *(f"Question_{q}" for q in (0, 1)))
FIELDS += tuple(f"Image_{i}_Question_{q}" for q in (0, 1) for i in (0, 1))
TEXTS = ("first", "second")  # the question with its answer on the first image, and with that on the second


def read_natural_bench_questions(data: Path, images: Path) -> Comparisons:
    """Return the task of the Parquet files in ``data``.

    Raises:
        DataError: there is none, or one is broken.
    """
    folder = release_folder(data, ("train-*.parquet",), ("data",), LAYOUT)
    pairs = cell_rows(folder, ("Image_0", "Image_1"), FIELDS, LAYOUT, pattern="train-*.parquet")
    rows = [row for pair in pairs for row in _questions(pair)]
    return pair_task(rows, TEXTS, _name, lambda row: [row.fields[TYPE]], folder)


def _questions(pair: Row) -> Iterator[Row]:
    """Yield the two questions of a pair of images."""
    kind, where = text_field(pair.fields, TYPE, pair.where), pair.where
    if kind not in ANSWERS:
        raise DataError(f"{where}: field {TYPE!r} is {brief(kind)}, which is none of {', '.join(ANSWERS)}.")
    for q in (0, 1):
        question = text_field(pair.fields, f"Question_{q}", where)
        answers = [text_field(pair.fields, f"Image_{i}_Question_{q}", where).strip() for i in (0, 1)]
        if set(answers) != set(ANSWERS[kind]):
            raise DataError(
                f"{where}: the answers to 'Question_{q}' must be {brief(ANSWERS[kind])}, one on each image, not "
                f"{brief(answers)}."
            )
        texts = dict(zip(TEXTS, (f"{question} {answer}" for answer in answers), strict=True))
        number = number_field(pair.fields, "Index", where)
        yield pair._replace(fields={**texts, TYPE: kind, "name": f"natural_bench-{number}-{q}"})


def _name(_: int, row: Row) -> str:
    return str(row.fields["name"])


BENCHMARK = Benchmark(
    name="natural_bench_questions",
    layout=LAYOUT,
    reader=read_natural_bench_questions,
    metrics=("i2t", "i_pos2t", "i_neg2t"),
    confirmed=(
        "github.com/Baiqi-Li/NaturalBench: naturalbench_vqa.py (columns, types of questions, Q-Acc and Acc); the files of "
        "huggingface.co/datasets/BaiqiL/NaturalBench by name, and their columns in its card. They were not at hand"
    ),
)
