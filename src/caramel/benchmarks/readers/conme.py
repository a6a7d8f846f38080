"""ConMe (Huang et al. 2024): an image, a question, its true answer, and a misleading false answer.

Question and answer are one text here. A hit is a text with the true answer that scores above the text with
the false answer. The authors compare the perplexity of the two answers after image and question.
"""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.public_files import find_release_files, locate_images
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons, ImageFile
from caramel.io.readers import iter_csv_rows
from caramel.io.validators import read_name_field, read_text_field

PARTS = ("att", "obj", "rel")
FILES = tuple(f"replace-{part}.csv" for part in PARTS)
LAYOUT = f"""\
  conme/{", ".join(FILES)}    from huggingface.co/conme/ConMe
  conme/images/…     from there as well: COCO 2017 validation images (also in IMAGES, or IMAGES/val2017)"""
QUESTION, ANSWERS = "base_question", ("correct_option", "incorrect_option")
COLUMNS = ("image", QUESTION, *ANSWERS)


def read_conme(data: Path, images: Path) -> Comparisons:
    """Return the task of the files that exist in ``data``.

    Raises:
        DataError: no file exists, or one is broken.
    """
    rows: list[dict[str, object]] = []
    image_indices: dict[str, int] = {}
    for path in find_release_files(data, FILES, LAYOUT):
        subset = path.stem.replace("-", "_")
        for number, (where, row) in enumerate(iter_csv_rows(path, COLUMNS)):
            name = read_name_field(row, "image", where)
            question = read_text_field(row, QUESTION, where)
            caption, negative = (f"{question} {read_text_field(row, answer, where)}" for answer in ANSWERS)
            rows.append(
                {
                    "instance_id": f"{subset}-{number}",
                    "image_id": name,
                    "subsets": [subset],
                    "image": image_indices.setdefault(name, len(image_indices)),
                    "caption": caption,
                    "negative_caption": negative,
                }
            )
    if not rows:
        raise DataError(f"The files in {str(data)!r} have no rows. Download them again.")
    files = locate_images(images, list(image_indices), ("images", "val2017", "coco/val2017"))
    return build_comparisons(rows, [ImageFile(str(path)) for path in files])


BENCHMARK = Benchmark(
    name="conme",
    layout=LAYOUT,
    reader=read_conme,
    metrics=("accuracy",),
    confirmed=(
        "the card and the file list of huggingface.co/conme/ConMe (files, columns); jmiemirza/ConMe: README.md (choice by "
        "perplexity); that column image names a file: another project's evaluation (kjmillerCURIS/ScramblePOVID). The files "
        "themselves were not available. Files that end in HUMAN_FILTER have other columns and are not read"
    ),
)
