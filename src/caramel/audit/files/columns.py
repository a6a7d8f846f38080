"""Read captions and hard negatives from one file with named columns: CSV, JSON, JSON Lines or Parquet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.benchmarks.embedded_images import (
    ImageReference,
    check_no_verdicts,
    embed_values,
    read_embedded_images,
)
from caramel.errors import DataError
from caramel.io.keys import compute_text_key
from caramel.io.readers import iter_csv_rows, iter_parquet_rows, open_parquet, read_json_rows
from caramel.io.validators import format_value, is_inside_folder, validate_name, validate_text
from caramel.schemas.columns import SUBTYPES
from caramel.utils.text import extract_words

Rows = list[tuple[str, dict[str, Any]]]  # where, row
Texts = list[str | None]
SUFFIXES = (".csv", ".jsonl", ".json", ".parquet")
ALL = "all"  # type and subtype if no row has one; also the name of the figures over all rows
OTHER = "other"  # type or subtype of rows that have none, if other rows have one
MEANS = frozenset((ALL, "macro"))  # names of figures over several types
TEXTS = ("caption", "caption2", "negative_caption")
IMAGES = ("image", "negative_image")
REQUIRED = ("caption", "negative_caption")
# Our name -> column names in the file; the first column with a value is used.
OPTIONAL: Mapping[str, tuple[str, ...]] = {
    "caption2": ("caption2",),
    "pair_id": ("id", "pair_id", "instance_id"),
    "image_id": ("image_id", "filename", "image"),
    "image": ("image", "filename", "image_id"),
    "negative_image": ("negative_image",),
    "negative_image_id": ("negative_image",),
    "type": ("type",),
    "subtype": ("subtype",),
    "split": ("split",),
}
KEY = OPTIONAL["pair_id"][-1]  # column of the keys of a JSON object of rows; ids in other columns come first
IF_NAMED = ("split", "negative_image_id")  # columns that rows have only if the data set has them
IMAGE_COLUMNS = tuple(dict.fromkeys(name for ours in ("image_id", *IMAGES) for name in OPTIONAL[ours]))
# Python's output for an object that is not text: <PIL.JpegImagePlugin.JpegImageFile image … at 0x7F12>, [[[0 1 …
_OBJECT = re.compile(r"<.* at 0x[0-9A-Fa-f]+>|\[\[.*|tensor\(.*", re.DOTALL)


def describe_columns() -> str:
    """Return the required and the optional columns, for messages."""
    others = dict.fromkeys(name for names in OPTIONAL.values() for name in names)
    return f"{', '.join(REQUIRED)}; optional {', '.join(others)}"


def read_named(path: Path) -> pd.DataFrame:
    """Return the rows of a file with named columns.

    The columns of the result are pair_id, image_id, type, subtype, caption, caption2, negative_caption, image
    and negative_image, and those of ``IF_NAMED`` that the file has. Other columns are left out.

    - image_id and negative_image_id are the names of the images.
    - image and negative_image are an ``ImageFile`` if the file holds the image itself, else the name of a
      file.
    - A missing caption is empty text. Any other missing value is None.
    - Without ids, a row's id is its key in a JSON object of rows, else its number.
    - Without images, rows whose captions have the same words count as rows of one image.
    - Without types, all rows have type ``all``. If only some rows have no type, they have type ``other``.

    Raises:
        DataError: the file is broken or has no rows, a column is missing, a value is not text or not an
            image, or an image is outside of its folder.
    """
    return complete_rows(
        *_read_file(path),
        repr(str(path)),
        "If it is from the release of a benchmark, give the release's folder.",
    )


def complete_rows(names: Sequence[str], rows: Rows, where: str, cure: str = "") -> pd.DataFrame:
    """Return rows as ``read_named`` does, with missing names, images and types filled in.

    Args:
        names: columns of the source.
        rows: the location of each row, and its values by column.
        where: name of the source, for messages.
        cure: further advice if columns are missing.

    Raises:
        DataError: see ``read_named``.
    """
    lacking = [name for name in REQUIRED if name not in names]
    if lacking:
        raise DataError(
            f"{where} lacks the columns {lacking}; it has {format_value(list(names))}.\n"
            f"Required columns: {describe_columns()}. {cure}".rstrip()
        )
    if not rows:
        raise DataError(f"{where} holds no row.")
    columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in OPTIONAL if name not in IF_NAMED}
    columns |= {name: [text or "" for text in _parse_texts(rows, name)] for name in REQUIRED}
    images = {name: _read_images(rows, name, where) for name in IMAGE_COLUMNS if name in names}
    for name, others in OPTIONAL.items():
        for column in (other for other in others if other in names):
            if column not in images:
                columns[name] = _parse_texts(rows, column)
            elif name in ("image_id", "negative_image_id"):
                columns[name] = [image and image.name for image in images[column]]
            else:
                columns[name] = [image and image.file for image in images[column]]
            if any(columns[name]):
                break
    return _complete_columns(columns)


def _read_file(path: Path) -> tuple[list[str], Rows]:
    """Return the names of the file's columns, and its rows. Parquet rows hold only the known columns."""
    if path.suffix == ".parquet":
        return _read_parquet(path)
    rows = list(iter_csv_rows(path)) if path.suffix == ".csv" else read_json_rows(path, KEY)
    if not rows:
        raise DataError(f"{str(path)!r} holds no row.")
    for where, row in rows:
        if not isinstance(row, dict):
            raise DataError(f"{where} must be an object of fields, not {format_value(row)}.")
    return list(dict.fromkeys(name for _, row in rows for name in row)), rows


def _read_parquet(path: Path) -> tuple[list[str], Rows]:
    """Return the names of the file's columns, and its rows with the known columns.

    Encoded images are not held in memory.
    """
    known = {*REQUIRED, *(name for names in OPTIONAL.values() for name in names)}
    with open_parquet(path) as file:
        names = list(file.schema_arrow.names)
    embedded = read_embedded_images(path, IMAGE_COLUMNS)
    rows = list(iter_parquet_rows(path, [name for name in names if name in known and name not in embedded]))
    for number, (_, row) in enumerate(rows):
        row.update({column: images[number] for column, images in embedded.items()})
    return names, rows


def _parse_texts(rows: Rows, column: str) -> Texts:
    """Return the values of a column as texts; whole numbers become names, and empty or missing values None.

    Raises:
        DataError: a value is neither text nor a whole number, or not valid Unicode.
    """
    return [_parse_text(row.get(column), column, where) for where, row in rows]


def _parse_text(value: Any, column: str, where: str) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and column not in TEXTS:
        return str(value)
    if value is None or value == "" or value != value:
        return None
    if not isinstance(value, str) or (column not in TEXTS and _OBJECT.fullmatch(value)):
        raise DataError(
            f"{where}: column {column!r} must be text, not {format_value(value)}. {_suggest_fix(column)}"
        )
    if column not in TEXTS and not value.strip():
        return None
    return validate_text(value, column, where)


def _suggest_fix(column: str) -> str:
    if column not in IMAGE_COLUMNS:
        return "Write text, or rename the column."
    return (
        "Write the names of the images, or encoded images as the Hugging Face hub has them "
        '(dataset.cast_column("image", datasets.Image(decode=False))), or rename the column.'
    )


def _read_images(rows: Rows, column: str, source: str) -> list[ImageReference | None]:
    """Return the images of a column. The values of column ``image_id`` need not be file names.

    Raises:
        DataError: a value is not an image, or a name points outside of the folder.
    """
    values = embed_values([row.get(column) for _, row in rows], column, source)
    check_no_verdicts(values, column, source)
    images: list[ImageReference | None] = []
    for value, (where, _) in zip(values, rows, strict=True):
        image = value if isinstance(value, ImageReference) else None
        if image is None and (name := _parse_text(value, column, where)) is not None:
            file = name if column != "image_id" else name if is_inside_folder(name) else None
            image = ImageReference(name, file and validate_name(file, column, where))
        images.append(image)
    return images


def _complete_columns(columns: dict[str, list[Any]]) -> pd.DataFrame:
    """Return the rows with missing names, images and types filled in.

    A missing image is named by its caption, not by its row number: row 3 of another data set to train on has
    another image.
    """
    numbers = range(len(columns["caption"]))
    columns["pair_id"] = [name or f"row-{n}" for n, name in zip(numbers, columns["pair_id"], strict=True)]
    normalised = (" ".join(extract_words(str(text))) for text in columns["caption"])
    fallback_ids = [f"caption-{compute_text_key(words).hex()[:12]}" for words in normalised]
    columns["image_id"] = [name or one for name, one in zip(columns["image_id"], fallback_ids, strict=True)]
    labels = [_infer_types(*names) for names in zip(columns["type"], columns["subtype"], strict=True)]
    columns |= {
        name: [*fill_type_names([label[side] for label in labels])]
        for side, name in enumerate(("type", "subtype"))
    }
    return pd.DataFrame(columns, dtype=object)


def fill_type_names(names: Texts) -> list[str]:
    """Return the names of types; missing names become ``all``, or ``other`` if some names are not missing."""
    none = OTHER if any(names) else ALL
    return [name or none for name in names]


def _infer_types(type_name: str | None, subtype: str | None) -> tuple[str | None, str | None]:
    """Return type and subtype as SugarCrepe names them: ``add`` and ``obj`` become ``add`` and ``add_obj``."""
    if f"{type_name}_{subtype}" in SUBTYPES:
        subtype = f"{type_name}_{subtype}"
    if type_name is None:
        type_name = str(subtype).partition("_")[0] if subtype in SUBTYPES else None
    return type_name, subtype or type_name
