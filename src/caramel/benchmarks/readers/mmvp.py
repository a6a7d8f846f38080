"""MMVP-VLM (Tong et al. 2024): pairs of images that CLIP confuses, one statement each; nine visual patterns.

A hit is a pair in which each of the two statements, put after "a photo of ", finds its own image. The authors
compare the images for one statement, not the statements for one image. The mean is over the patterns, which
have 15 pairs each.
"""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.public_files import find_release_files, locate_images
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons, ImageFile
from caramel.io.readers import iter_csv_rows
from caramel.io.validators import format_value, read_text_field

LAYOUT = """\
  mmvp/Questions.csv                                from huggingface.co/datasets/MMVP/MMVP_VLM
  IMAGES/MLLM_VLM Images/Orientation/1.jpg …        from there as well (also directly in IMAGES)"""
PATTERNS = (
    "Orientation",
    "Presence",
    "State",
    "Quantity",
    "Spatial",
    "Color",
    "Structural Character",
    "Text",
    "Camera Perspective",
)
ID, PATTERN, STATEMENT = COLUMNS = ("Question ID", "Type", "Statement")
PROMPT = "a photo of "


def read_mmvp(data: Path, images: Path) -> Comparisons:
    """Return the task of ``Questions.csv`` in ``data``: images 1 and 2, 3 and 4, … are pairs.

    Raises:
        DataError: the file is missing or broken, or the images do not form pairs.
    """
    path = find_release_files(data, ["Questions.csv"], LAYOUT)[0]
    questions: dict[int, tuple[str, str]] = {}  # image -> pattern, statement
    for where, row in iter_csv_rows(path, COLUMNS):
        number, pattern, statement = _parse_row(row, where)
        if number in questions:
            raise DataError(f"{where}: image {number} already has a statement.")
        questions[number] = pattern, statement
    if not questions:
        raise DataError(f"{str(path)!r} has no rows.")
    rows: list[dict[str, object]] = []
    names: list[str] = []
    for number in sorted({image - (image + 1) % 2 for image in questions}):
        (pattern, statement), (_, other) = _get_pair(questions, number, path)
        rows.append(
            {
                "instance_id": f"{number}-{number + 1}",
                "image_id": f"{pattern}/{number}.jpg",
                "subsets": [pattern],
                "image": len(names),
                "negative_image": len(names) + 1,
                "caption": PROMPT + statement,
                "negative_caption": PROMPT + other,
            }
        )
        names += [f"{pattern}/{n}.jpg" for n in (number, number + 1)]
    files = locate_images(images, names, ("MLLM_VLM Images",))
    return build_comparisons(rows, [ImageFile(str(path)) for path in files])


def _parse_row(row: dict[str, str], where: str) -> tuple[int, str, str]:
    """Return number, pattern and statement of one image."""
    number, pattern = row[ID].strip(), row[PATTERN].strip()
    if not (number.isascii() and number.isdigit() and len(number) < 10 and int(number)):
        raise DataError(f"{where}: column {ID!r} must be the number of an image, not {format_value(number)}.")
    if pattern not in PATTERNS:
        raise DataError(
            f"{where}: column {PATTERN!r} is {format_value(pattern)}. Expected one of {', '.join(PATTERNS)}."
        )
    return int(number), pattern, read_text_field(row, STATEMENT, where)


def _get_pair(
    questions: dict[int, tuple[str, str]], number: int, path: Path
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return pattern and statement of an odd image and of the next one."""
    first, second = questions.get(number), questions.get(number + 1)
    if first is None or second is None or first[0] != second[0]:
        raise DataError(
            f"{str(path)!r}: images {number} and {number + 1} must both exist and have the same pattern; "
            f"found {format_value(first)} and {format_value(second)}."
        )
    return first, second


BENCHMARK = Benchmark(
    name="mmvp",
    layout=LAYOUT,
    reader=read_mmvp,
    metrics=("t2i",),
    confirmed="tsb0601/MMVP: scripts/evaluate_vlm.py, README.md; the file list of "
    "huggingface.co/datasets/MMVP/MMVP_VLM (folders of the images); Questions.csv itself was not available",
    macro=PATTERNS.__contains__,
)
