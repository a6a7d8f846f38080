"""What'sUp (Kamath et al. 2023): one image and captions that differ only in a preposition; six parts.

Controlled-A (household objects) and Controlled-B (objects on a table, called CLEVR in the files) have four
captions each. A hit is a first caption that scores above the other three: the authors' individual accuracy.
The authors' accuracies of pairs and of sets, which require all images of two objects at once, are not given.
COCO-spatial and GQA-spatial, with one object or two, have two captions. Subsets are the prepositions, found
as the authors find them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from caramel.benchmarks.public_files import find_release_files, locate_images
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import DataError
from caramel.interfaces.benchmark import RANKING_COLUMNS, Benchmark, Comparisons, ImageFile, Rankings
from caramel.io.readers import read_json_rows
from caramel.io.validators import format_value, read_list_field, read_text_field, validate_name

OPTIONS = 4
LAYOUT = """\
  {name}/{file}
      from the Google Drive folder linked in github.com/amitakamath/whatsup_vlms
  IMAGES/{folder}/…
      {where}"""
CONFIRMED = "amitakamath/whatsup_vlms: dataset_zoo/aro_datasets.py ({}), README.md; "
CONFIRMED_ROWS = (  # for the controlled parts
    "from the copy of the file in zdxdsw/skewed_relations_T2I, data/whatsup_vlms, the rows at the beginning and at the end "
    "({} characters)"
)


def read_controlled(data: Path, images: Path, *, file: str, folder: str, layout: str) -> Rankings:
    """Return the task of a controlled part: ``[{image_path, caption_options}, …]``, the first one true.

    Raises:
        DataError: the file is missing or broken.
    """
    rows: list[dict[str, Any]] = []
    names: dict[str, int] = {}
    texts: dict[str, int] = {}
    pools = []
    path = find_release_files(data, [file], layout)[0]
    for number, (where, row) in enumerate(read_json_rows(path)):
        name = validate_name(
            PurePosixPath(read_text_field(row, "image_path", where)).name, "image_path", where
        )
        captions = _read_options(row, where)
        pools.append(np.array([texts.setdefault(text, len(texts)) for text in captions], np.int64))
        rows.append(
            {
                "instance_id": str(number),
                "image_id": name,
                "subsets": [_find_name_preposition(name, folder)],
                "direction": "i2t",
                "query": names.setdefault(name, len(names)),
                "pool": number,
                "true": [texts[captions[0]]],
            }
        )
    _check_not_empty(rows, path)
    files = locate_images(images, list(names), (folder, f"data/{folder}"))
    return Rankings(
        pd.DataFrame(rows, columns=list(RANKING_COLUMNS)),
        [ImageFile(str(path)) for path in files],
        [(text,) for text in texts],
        pools,
    )


def read_spatial(
    data: Path, images: Path, *, file: str, folder: str, digits: int, prepositions: Sequence[str], layout: str
) -> Comparisons:
    """Return the task of a spatial part: ``[[image, true caption, false caption], …]``.

    Args:
        data: folder of the file.
        images: folder of the images.
        file: name of the file.
        folder: name of the folder of the images.
        digits: number of digits to which the image's number is padded.
        prepositions: words that identify the preposition between two objects; the last one is the
            default. Empty: the last word of the caption is the preposition of one object.
        layout: expected layout of this part, for messages.

    Raises:
        DataError: the file is missing or broken.
    """
    rows: list[dict[str, object]] = []
    names: dict[str, int] = {}
    path = find_release_files(data, [file], layout)[0]
    for number, (where, row) in enumerate(read_json_rows(path)):
        if not isinstance(row, list) or len(row) < 3:
            raise DataError(f"{where} must be [image, true caption, false caption], not {format_value(row)}.")
        name = f"{_parse_number(row[0], where).zfill(digits)}.jpg"
        caption, negative = (read_text_field({"caption": text}, "caption", where) for text in row[1:3])
        rows.append(
            {
                "instance_id": str(number),
                "image_id": name,
                "subsets": [_find_caption_preposition(caption, prepositions)],
                "image": names.setdefault(name, len(names)),
                "caption": caption,
                "negative_caption": negative,
            }
        )
    _check_not_empty(rows, path)
    files = locate_images(images, list(names), (folder, f"data/{folder}", f"coco/{folder}"))
    return build_comparisons(rows, [ImageFile(str(path)) for path in files])


def _read_options(row: Any, where: str) -> list[str]:
    """Return the four captions."""
    field = "caption_options"
    captions = [read_text_field({field: text}, field, where) for text in read_list_field(row, field, where)]
    if len(captions) != OPTIONS or len(set(captions)) != OPTIONS:
        raise DataError(
            f"{where}: field {field!r} must be {OPTIONS} different captions, not {format_value(captions)}."
        )
    return captions


def _parse_number(value: Any, where: str) -> str:
    """Return the number of an image as written in the file."""
    number = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not (number.isascii() and number.isdigit() and len(number) < 20):
        raise DataError(f"{where} must begin with the number of an image, not {format_value(value)}.")
    return number


def _find_name_preposition(name: str, folder: str) -> str:
    """Return the preposition that is part of a controlled image's name."""
    third, last = ("on", "under") if folder == "controlled_images" else ("in-front_of", "behind")
    return next((word for word in ("left_of", "right_of", third) if f"_{word}_" in name), last)


def _find_caption_preposition(caption: str, prepositions: Sequence[str]) -> str:
    """Return the preposition of a true caption; see ``read_spatial``."""
    if not prepositions:
        return caption.split()[-1]
    return next((words for words in prepositions[:-1] if words in caption), prepositions[-1]).split()[0]


def _check_not_empty(rows: list[dict[str, Any]], path: Path) -> None:
    if not rows:
        raise DataError(f"{str(path)!r} has no rows.")


def _build_benchmark(
    name: str, layout: str, read: Callable[..., Any], metric: str, confirmed: str
) -> Benchmark:
    return Benchmark(name, layout, partial(read, layout=layout), (metric,), confirmed)


def _build_controlled(name: str, file: str, folder: str, characters_read: str) -> Benchmark:
    layout = LAYOUT.format(name=name, file=file, folder=folder, where="from there as well")
    read = partial(read_controlled, file=file, folder=folder)
    confirmed = CONFIRMED.format("Controlled_Images") + CONFIRMED_ROWS.format(characters_read)
    return _build_benchmark(name, layout, read, "recall@1", confirmed)


def _build_spatial(
    name: str, file: str, prepositions: Sequence[str], folder: str, where: str, digits: int, confirmed: str
) -> Benchmark:
    layout = LAYOUT.format(name=name, file=file, folder=folder, where=where)
    read = partial(read_spatial, file=file, folder=folder, digits=digits, prepositions=prepositions)
    confirmed = f"{CONFIRMED.format(confirmed)}the file itself was not available"
    return _build_benchmark(name, layout, read, "accuracy", confirmed)


_COCO = ("val2017", "COCO 2017, validation", 12, "COCO_QA")
_GQA = ("vg_images", "from there as well", 0, "VG_QA")
_COCO_WORDS = ("left of", "right of", "above", "below")
_GQA_WORDS = ("left of", "right of", "front of", "behind", "top")
WHATSUP_A = _build_controlled(
    "whatsup_a", "controlled_images_dataset.json", "controlled_images", "20,371 of its 88,371"
)
WHATSUP_B = _build_controlled(
    "whatsup_b", "controlled_clevr_dataset.json", "controlled_clevr", "19,032 of its 86,532"
)
COCO_SPATIAL_ONE = _build_spatial("coco_spatial_one", "coco_qa_one_obj.json", (), *_COCO)
COCO_SPATIAL_TWO = _build_spatial("coco_spatial_two", "coco_qa_two_obj.json", _COCO_WORDS, *_COCO)
GQA_SPATIAL_ONE = _build_spatial("gqa_spatial_one", "vg_qa_one_obj.json", (), *_GQA)
GQA_SPATIAL_TWO = _build_spatial("gqa_spatial_two", "vg_qa_two_obj.json", _GQA_WORDS, *_GQA)
