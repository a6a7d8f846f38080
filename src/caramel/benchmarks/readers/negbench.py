"""NegBench (Alhamoud et al. 2025): negation, as multiple choice and as retrieval.

    negbench_mcq         an image and four captions, one of them true: affirmed ("positive"), negated
                         ("negative") or both ("hybrid"). CheXpert's questions have two captions.
    negbench_retrieval   a caption, negated or not, among all images of its file: the published direction

An empty caption is a query like the others, and a miss for most models.

The files name images by the paths of the authors' machine. The reader strips as many leading folders as it
must to find them. It does not read the videos.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from caramel.benchmarks.public_files import find_release_files, locate_files
from caramel.benchmarks.tasks import Choice, build_choices
from caramel.errors import DataError
from caramel.interfaces.benchmark import RANKING_COLUMNS, Benchmark, ImageFile, Index, Rankings
from caramel.io.readers import iter_csv_rows, parse_literal
from caramel.io.validators import format_value, read_name_field, read_text_field, validate_text

# Subset -> its file.
MCQ = {
    "coco": "COCO_val_mcq_llama3.1_rephrased.csv",
    "voc2007": "VOC2007_mcq_llama3.1_rephrased.csv",
    "synthetic": "synthetic_mcq_llama3.1_rephrased.csv",
    "chexpert": "chexpert_binary_mcq.csv",
    "chexpert_control": "chexpert_binary_mcq_control.csv",
}
RETRIEVAL = {
    "coco": "COCO_val_retrieval.csv",
    "coco_negated": "COCO_val_negated_retrieval_llama3.1_rephrased_affneg_true.csv",
    "synthetic": "synthetic_retrieval_v1.csv",
    "synthetic_negated": "synthetic_retrieval_v2.csv",
}
TEMPLATES = ("positive", "negative", "hybrid")
LAYOUT = """\
  {name}/{first} …
      from the Google Drive folder linked in datasets.md of github.com/m1k2zoo/negbench (also in {name}/images);
      any or all of these files: {files}
  IMAGES/val2017/000000397133.jpg …   the images that they name: {images}"""


def read_mcq(data: Path, images: Path) -> Rankings:
    """Return the task of the multiple-choice files that exist.

    Raises:
        DataError: no file exists, or one is broken.
    """
    rows: list[Choice] = []
    files: dict[str, ImageFile] = {}
    for subset, path in _list_files(data, MCQ, MCQ_LAYOUT):
        part = list(_iter_questions(path, subset))
        files |= _locate_images([row.query for row in part], path, data, images)
        rows += part
    return build_choices(rows, list(files.items()))


def _iter_questions(path: Path, subset: str) -> Iterator[Choice]:
    """Yield the questions of a file."""
    binary = subset.startswith("chexpert")
    captions = [f"caption_{k}" for k in range(2 if binary else 4)]
    columns = ["image_path", "correct_answer", *captions, *([] if binary else ["correct_answer_template"])]
    for number, (where, row) in enumerate(iter_csv_rows(path, columns)):
        image, true = read_name_field(row, "image_path", where), row["correct_answer"].strip()
        if true not in map(str, range(len(captions))):
            raise DataError(
                f"{where}: column 'correct_answer' must be the number of a caption, from 0 to {len(captions) - 1}, "
                f"not {format_value(true)}."
            )
        subsets = [subset] if binary else [subset, f"{subset}/{_parse_template(row, where)}"]
        options = [read_text_field(row, name, where) for name in captions]
        yield Choice(f"{subset}-{number}", image, subsets, "i2t", image, options, int(true))


def _parse_template(row: Mapping[str, str], where: str) -> str:
    template = row["correct_answer_template"].strip()
    if template not in TEMPLATES:
        raise DataError(
            f"{where}: column 'correct_answer_template' is {format_value(template)}. Expected one of {', '.join(TEMPLATES)}."
        )
    return template


class _CaptionedImage(NamedTuple):
    """One row of a file for retrieval."""

    image: str
    captions: list[str]


def read_retrieval(data: Path, images: Path) -> Rankings:
    """Return the task of the retrieval files that exist: each caption among the images of its own file.

    Raises:
        DataError: no file exists, or one is broken.
    """
    rows: list[tuple[object, ...]] = []
    texts: list[tuple[str, ...]] = []
    pools: list[Index] = []
    image_indices: dict[ImageFile, int] = {}
    for subset, path in _list_files(data, RETRIEVAL, RETRIEVAL_LAYOUT):
        part = list(_iter_captioned_images(path))
        files = _locate_images([row.image for row in part], path, data, images)
        index_by_name = {
            name: image_indices.setdefault(file, len(image_indices)) for name, file in files.items()
        }
        for number, row in enumerate(part):
            for k, caption in enumerate(row.captions):
                name, true = f"{subset}-{number}-{k}", [index_by_name[row.image]]
                rows.append((name, row.image, [subset], "t2i", len(texts), len(pools), true))
                texts.append((caption,))
        pools.append(np.array(list(index_by_name.values()), np.int64))
    return Rankings(pd.DataFrame(rows, columns=list(RANKING_COLUMNS)), list(image_indices), texts, pools)


def _iter_captioned_images(path: Path) -> Iterator[_CaptionedImage]:
    """Yield the rows of a file."""
    for where, row in iter_csv_rows(path, ["filepath", "captions"]):
        captions = parse_literal(row["captions"], f"{where}, column 'captions'")
        if not isinstance(captions, list) or not captions:
            raise DataError(
                f"{where}: column 'captions' must be a list of texts, not {format_value(captions)}."
            )
        yield _CaptionedImage(
            read_name_field(row, "filepath", where),
            [_parse_caption(text, where) for text in captions],
        )


def _parse_caption(text: Any, where: str) -> str:
    """Return a caption, which may be empty.

    One of the release's 65,028 captions is empty, and the authors' code scores it as a query.
    """
    if not isinstance(text, str):
        raise DataError(f"{where}: field 'captions' must be text, not {format_value(text)}.")
    return validate_text(text, "captions", where)


def _list_files(data: Path, names: Mapping[str, str], layout: str) -> list[tuple[str, Path]]:
    """Return (subset, file) of the files that exist."""
    folder = data / "images" if any((data / "images" / name).is_file() for name in names.values()) else data
    subsets = {name: subset for subset, name in names.items()}
    return [(subsets[path.name], path) for path in find_release_files(folder, names.values(), layout)]


def _locate_images(names: Sequence[str], path: Path, data: Path, images: Path) -> dict[str, ImageFile]:
    """Return the images that a file names, as a mapping from name to file.

    As few leading folders are stripped as needed to find any image, and never so many that two names become
    one. If no image is found, all folders stay, so that the image check can list what is missing.

    Raises:
        DataError: the file names no image, so it has no rows.
    """
    distinct = list(dict.fromkeys(names))
    if not distinct:
        raise DataError(f"{str(path)!r} has no rows. Download it again.")
    for left_out in range(len(PurePosixPath(distinct[0]).parts)):
        shorter = [_strip_folders(name, left_out) for name in distinct]
        files = locate_files([images, data], shorter) if len(set(shorter)) == len(shorter) else None
        if files:
            return {name: ImageFile(str(path)) for name, path in zip(distinct, files, strict=True)}
    return {name: ImageFile(str(images / name)) for name in distinct}


def _strip_folders(name: str, folders: int) -> str:
    """Return a name without its first folders. The last part always stays."""
    parts = PurePosixPath(name).parts
    return str(PurePosixPath(*parts[min(folders, len(parts) - 1) :]))


_IMAGES = "COCO 2017 validation, VOC 2007 test,\n      synthetic ones from the authors, CheXpert"
MCQ_LAYOUT = LAYOUT.format(
    name="negbench_mcq", first=MCQ["coco"], files=",\n      ".join(MCQ.values()), images=_IMAGES
)
RETRIEVAL_LAYOUT = LAYOUT.format(
    name="negbench_retrieval",
    first=RETRIEVAL["coco"],
    files=",\n      ".join(RETRIEVAL.values()),
    images="COCO 2017 validation,\n      synthetic ones from the authors",
)
_CONFIRMED = (
    "the first rows of the authors' files of COCO, VOC 2007 and the synthetic images, as found in a later project "
    "(github.com/sepehrkr/SpaceVLM, data/images); "
)
NEGBENCH_MCQ = Benchmark(
    name="negbench_mcq",
    layout=MCQ_LAYOUT,
    reader=read_mcq,
    metrics=("recall@1",),
    confirmed=_CONFIRMED
    + "github.com/m1k2zoo/negbench: datasets.md (files), training/data.py and evaluation/mcq.py (columns, "
    "accuracy by template), in forks of it. CheXpert's files were not available: their columns are taken from the code",
)
NEGBENCH_RETRIEVAL = Benchmark(
    name="negbench_retrieval",
    layout=RETRIEVAL_LAYOUT,
    reader=read_retrieval,
    metrics=("recall@1", "recall@5"),
    confirmed=_CONFIRMED
    + "github.com/m1k2zoo/negbench: datasets.md (files), training/data.py and evaluation/retrieval.py "
    "(columns, recall of images at 1 and 5), in forks of it, and a reading of the published retrieval files: 65,028 "
    "captions, one of them empty",
)
