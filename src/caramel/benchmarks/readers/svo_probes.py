"""SVO-Probes (Hendricks & Nematzadeh 2021): one sentence, one image that fits it and one that does not.

A hit is a sentence that scores higher with the true image than with the false one. The set is used in this
form for models that give scores. The authors let a model say of each image whether it fits, and average the
two accuracies. That needs a threshold, which scores alone do not provide.

As in the authors' notebook, a row counts only if it is a negative of exactly one type: subject, verb or
object.
"""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.public_files import find_release_files, locate_images
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons, ImageFile
from caramel.io.readers import iter_csv_rows
from caramel.io.validators import format_value, read_text_field, validate_name

LAYOUT = """\
  svo_probes/svo_probes.csv     from github.com/google-deepmind/svo_probes
  IMAGES/1234.jpg …             downloaded from pos_url and neg_url, each named by its pos_image_id or
                                neg_image_id (also in IMAGES/images)"""
NEGATIVE_TYPES = {"subj_neg": "subject", "verb_neg": "verb", "obj_neg": "object"}
COLUMNS = ("sentence", "pos_image_id", "neg_image_id", *NEGATIVE_TYPES)


def read_svo_probes(data: Path, images: Path) -> Comparisons:
    """Return the task of ``svo_probes.csv`` in ``data``.

    Raises:
        DataError: the file is missing or broken, or no row is a negative of exactly one type.
    """
    path = find_release_files(data, ["svo_probes.csv"], LAYOUT)[0]
    rows: list[dict[str, object]] = []
    image_indices: dict[str, int] = {}
    for number, (where, row) in enumerate(iter_csv_rows(path, COLUMNS)):
        negative_types = [
            name for column, name in NEGATIVE_TYPES.items() if _parse_bool(row[column], column, where)
        ]
        if len(negative_types) != 1:
            continue
        positive, negative = (_format_file_name(row[column], column, where) for column in COLUMNS[1:3])
        rows.append(
            {
                "instance_id": str(number),
                "image_id": positive,
                "subsets": negative_types,
                "image": image_indices.setdefault(positive, len(image_indices)),
                "negative_image": image_indices.setdefault(negative, len(image_indices)),
                "caption": read_text_field(row, "sentence", where),
            }
        )
    if not rows:
        raise DataError(f"{str(path)!r} has no row that is a negative of exactly one type.")
    files = locate_images(images, list(image_indices), ("images",))
    return build_comparisons(rows, [ImageFile(str(path)) for path in files])


def _parse_bool(value: str, column: str, where: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise DataError(f"{where}: column {column!r} must be True or False, not {format_value(value)}.")
    return value.lower() == "true"


def _format_file_name(value: str, column: str, where: str) -> str:
    """Return the file name of an image from its number."""
    if not (value.isascii() and value.isdigit()):
        raise DataError(
            f"{where}: column {column!r} must be the number of an image, not {format_value(value)}."
        )
    return validate_name(f"{value}.jpg", column, where)


BENCHMARK = Benchmark(
    name="svo_probes",
    layout=LAYOUT,
    reader=read_svo_probes,
    metrics=("image_accuracy",),
    confirmed="google-deepmind/svo_probes: README.md (columns) and probing_image_text_models.ipynb (which "
    "rows count); the release has no images, so the names of their files are caramel's. "
    "svo_probes.csv itself was not available",
)
