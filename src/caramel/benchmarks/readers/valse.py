"""VALSE (Parcalabescu et al. 2022): an image, its caption and a foil, in eleven pieces.

The pieces cover six phenomena and FOIL-it.

Only valid foils count: at least two of the three annotators chose the caption, and not the foil, as
describing the image. A hit is a caption that scores above its foil: the authors' pairwise accuracy acc_r. The
mean is over the pieces, as in the authors' table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from caramel.benchmarks.public_files import find_release_files, locate_images
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons, ImageFile
from caramel.io.readers import read_json_rows
from caramel.io.validators import format_value, read_name_field, read_text_field

LAYOUT = """\
  valse/existence.json … foil-it.json              from github.com/Heidelberg-NLP/VALSE, folder data
  IMAGES/visual7w/v7w_1.jpg …                      Visual7W
  IMAGES/val2017/000000000139.jpg …                COCO 2017, validation
  IMAGES/train2014, IMAGES/val2014                 COCO 2014
  IMAGES/VisualDialog_val2018                      VisDial 1.0, validation
  IMAGES/swig/exercising_255.jpg …                 SWiG, images_512"""
PIECES = {  # piece, the name of its file -> phenomenon
    "existence": "existence",
    "plurals": "plurals",
    "counting-hard": "counting",
    "counting-small-quant": "counting",
    "counting-adversarial": "counting",
    "relations": "relations",
    "action-replacement": "actions",
    "actant-swap": "actions",
    "coreference-standard": "coreference",
    "coreference-hard": "coreference",
    "foil-it": "foil-it",
}
VOTES = 2  # of three annotators
SWIG = "swig"
SOURCES = {  # prefix of a source's image names -> its folder
    "v7w_": "visual7w",
    "COCO_train2014_": "train2014",
    "COCO_val2014_": "val2014",
    "VisualDialog_val2018_": "VisualDialog_val2018",
    "000000": "val2017",
}


def read_valse(data: Path, images: Path) -> Comparisons:
    """Return the task of the valid foils of the pieces in ``data``, which may be fewer than eleven.

    Raises:
        DataError: no file exists, one is broken, or no foil is valid.
    """
    paths = find_release_files(data, [f"{piece}.json" for piece in PIECES], LAYOUT)
    rows = [row for path in paths for row in _iter_valid_foils(path)]
    if not rows:
        raise DataError(f"{str(data)!r} has no valid foil: none has {VOTES} votes for its caption.")
    names = list(dict.fromkeys(str(row["image_id"]) for row in rows))
    image_indices = {name: i for i, name in enumerate(names)}
    files = _locate_by_source(images, names)
    return build_comparisons(
        [{**row, "image": image_indices[str(row["image_id"])]} for row in rows],
        [ImageFile(str(files[name])) for name in names],
    )


def _iter_valid_foils(path: Path) -> Iterator[dict[str, object]]:
    """Yield the valid foils of one piece."""
    piece = path.stem
    for number, (where, row) in enumerate(read_json_rows(path)):
        image = read_name_field(row, "image_file", where)
        if _count_votes(row, where) >= VOTES:
            yield {
                "instance_id": f"{piece}-{number}",
                "image_id": image,
                "subsets": list(dict.fromkeys([PIECES[piece], piece])),
                "caption": read_text_field(row, "caption", where),
                "negative_caption": read_text_field(row, "foil", where),
            }


def _count_votes(row: Any, where: str) -> int:
    """Return the number of annotators who chose only the caption."""
    votes = row.get("mturk")
    count = votes.get("caption") if isinstance(votes, dict) else None
    if isinstance(count, bool) or not isinstance(count, int):
        raise DataError(
            f"{where}: field 'mturk' must hold the number of votes for the 'caption', not {format_value(votes)}."
        )
    return count


def _find_source(name: str) -> str:
    """Return the folder of the image's source."""
    return next((folder for start, folder in SOURCES.items() if name.startswith(start)), SWIG)


def _locate_by_source(images: Path, names: list[str]) -> Mapping[str, Path]:
    """Return the path of each image by name. Each source has its own folders."""
    by_source: dict[str, list[str]] = {}
    for name in names:
        by_source.setdefault(_find_source(name), []).append(name)
    files: dict[str, Path] = {}
    for source, names_of_source in by_source.items():
        folders = (source, f"{source}/images", f"{source}/images_512", f"coco/{source}")
        files |= zip(names_of_source, locate_images(images, names_of_source, folders), strict=True)
    return files


BENCHMARK = Benchmark(
    name="valse",
    layout=LAYOUT,
    reader=read_valse,
    metrics=("accuracy",),
    confirmed="Heidelberg-NLP/VALSE: README.md, lxmert_valse_eval.py (valid foils, acc_r); the eleven files "
    "as copied in lezhang7/Enhance-FineGrained, VALSE/data, and its VALSE/clip_valse_eval.py (their images). Tests read "
    "eight of the eleven files: the number of valid foils equals the paper's (7,702 of 8,782 in all). In that copy, the "
    "beginning and the end of actant-swap and coreference-hard were read, and a part of the middle of plurals",
    macro=PIECES.__contains__,
)
