"""NaturalBench (Li et al. 2024): two questions on two images; the answers differ between the images.

An instance is a question with its answer on each of the two images, as one text each. ``i2t`` is the authors'
Q-Acc, with the higher-scoring answer as the model's answer. The mean of ``i_pos2t`` and ``i_neg2t`` is their
Acc. I-Acc and G-Acc, which combine the two questions of a pair, are not given.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from caramel.benchmarks.pairs import Row, build_pair_task, find_release_folder, read_embedded_rows
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons
from caramel.io.validators import format_value, read_number_field, read_text_field

LAYOUT = """\
  natural_bench_questions/train-*.parquet    from huggingface.co/datasets/BaiqiL/NaturalBench (also in
                                             natural_bench_questions/data); they hold the images"""
ANSWERS = {"yes_no": ("Yes", "No"), "multiple_choice": ("A", "B")}  # by type of the question
TYPE = "Question_Type"
FIELDS = ("Index", TYPE, *(f"Question_{q}" for q in (0, 1)))
FIELDS += tuple(f"Image_{i}_Question_{q}" for q in (0, 1) for i in (0, 1))
TEXTS = ("first", "second")  # the question with its answer on the first image, and on the second


def read_natural_bench_questions(data: Path, images: Path) -> Comparisons:
    """Return the task of the Parquet files in ``data``.

    Raises:
        DataError: no file exists, or one is broken.
    """
    folder = find_release_folder(data, ("train-*.parquet",), ("data",), LAYOUT)
    pairs = read_embedded_rows(folder, ("Image_0", "Image_1"), FIELDS, LAYOUT, pattern="train-*.parquet")
    rows = [row for pair in pairs for row in _iter_questions(pair)]
    return build_pair_task(rows, TEXTS, _get_instance_id, lambda row: [row.fields[TYPE]], folder)


def _iter_questions(pair: Row) -> Iterator[Row]:
    """Yield the two questions of a pair of images."""
    question_type, where = read_text_field(pair.fields, TYPE, pair.where), pair.where
    if question_type not in ANSWERS:
        raise DataError(
            f"{where}: field {TYPE!r} is {format_value(question_type)}. Expected one of {', '.join(ANSWERS)}."
        )
    for q in (0, 1):
        question = read_text_field(pair.fields, f"Question_{q}", where)
        answers = [read_text_field(pair.fields, f"Image_{i}_Question_{q}", where).strip() for i in (0, 1)]
        if set(answers) != set(ANSWERS[question_type]):
            raise DataError(
                f"{where}: the answers to 'Question_{q}' must be {format_value(ANSWERS[question_type])}, one on each image, not "
                f"{format_value(answers)}."
            )
        texts = dict(zip(TEXTS, (f"{question} {answer}" for answer in answers), strict=True))
        number = read_number_field(pair.fields, "Index", where)
        yield pair._replace(fields={**texts, TYPE: question_type, "name": f"natural_bench-{number}-{q}"})


def _get_instance_id(_: int, row: Row) -> str:
    return str(row.fields["name"])


BENCHMARK = Benchmark(
    name="natural_bench_questions",
    layout=LAYOUT,
    reader=read_natural_bench_questions,
    metrics=("i2t", "i_pos2t", "i_neg2t"),
    confirmed=(
        "github.com/Baiqi-Li/NaturalBench: naturalbench_vqa.py (columns, types of questions, Q-Acc and Acc); the file names of "
        "huggingface.co/datasets/BaiqiL/NaturalBench, and their columns in its card. The files were not available"
    ),
)
