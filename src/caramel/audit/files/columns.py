"""Captions and hard negatives from one file with named columns: CSV, JSON, JSON Lines or Parquet."""

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
ALL = "all"  # type and subtype where no row has one, and the name of all rows together
OTHER = "other"  # of rows that have none, where others do
MEANS = frozenset((ALL, "macro"))  # names of figures over several
TEXTS = ("caption", "caption2", "negative_caption")
IMAGES = ("image", "negative_image")
REQUIRED = ("caption", "negative_caption")
# Ours -> names in the file, the first that holds something.
OPTIONAL: Mapping[str, tuple[str, ...]] = {
    "caption2": ("caption2",),
    "pair_id": ("id", "pair_id", "instance_id"),
    "image_id": ("image_id", "filename", "image"),
    "image": ("image", "filename", "image_id"),
    "negative_image": ("negative_image",),
    "type": ("type",),
    "subtype": ("subtype",),
    "split": ("split",),
}
IMAGE_COLUMNS = tuple(dict.fromkeys(name for ours in ("image_id", *IMAGES) for name in OPTIONAL[ours]))
# What Python writes of an object that is no text: <PIL.JpegImagePlugin.JpegImageFile image … at 0x7F12>, [[[0 1 …
_OBJECT = re.compile(r"<.* at 0x[0-9A-Fa-f]+>|\[\[.*|tensor\(.*", re.DOTALL)


def describe_columns() -> str:
    """Return which columns there must be and may be, for messages."""
    others = dict.fromkeys(name for names in OPTIONAL.values() for name in names)
    return f"{', '.join(REQUIRED)}; optional {', '.join(others)}"


def read_named(path: Path) -> pd.DataFrame:
    """Return pair_id, image_id, type, subtype, caption, caption2, negative_caption, image, negative_image.

    And ``split``, where there is such a column. image_id is the name of the image; image, negative_image: an
    ``ImageFile`` where the file holds the image itself, else the name of a file. Other columns are left out.
    A caption that is missing is empty text, any other value that is missing None. Without ids the rows
    are counted; without images, rows with the same words in their captions count as of one image; without
    types, all rows are of type ``all``, and those that have none beside others of type ``other``.

    Raises:
        DataError: the file is broken or holds no row, a column is missing, a value is not text, or an image is none or
            lies outside of its folder.
    """
    return complete_rows(*_read_file(path), repr(str(path)), "Of a benchmark's release give the folder.")


def complete_rows(names: Sequence[str], rows: Rows, where: str, cure: str = "") -> pd.DataFrame:
    """Return rows as ``read_named`` does, with names, images and types where there are none.

    Args:
        names: columns that there are.
        rows: where each stands, and its values by column.
        where: what they are of, for messages.
        cure: what to do where columns are missing, beside naming them so.

    Raises:
        DataError: as in ``read_named``.
    """
    lacking = [name for name in REQUIRED if name not in names]
    if lacking:
        raise DataError(
            f"{where} lacks the columns {lacking}; it has {format_value(list(names))}.\n"
            f"Named columns are {describe_columns()}. {cure}".rstrip()
        )
    if not rows:
        raise DataError(f"{where} holds no row.")
    columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in OPTIONAL if name != "split"}
    columns |= {name: [text or "" for text in _parse_texts(rows, name)] for name in REQUIRED}
    images = {name: _read_images(rows, name, where) for name in IMAGE_COLUMNS if name in names}
    for name, others in OPTIONAL.items():
        for column in (other for other in others if other in names):
            if column not in images:
                columns[name] = _parse_texts(rows, column)
            elif name == "image_id":
                columns[name] = [image and image.name for image in images[column]]
            else:
                columns[name] = [image and image.file for image in images[column]]
            if any(columns[name]):
                break
    return _complete_columns(columns)


def _read_file(path: Path) -> tuple[list[str], Rows]:
    """Return the names of the file's columns, and its rows; of Parquet files, their known columns."""
    if path.suffix == ".parquet":
        return _read_parquet(path)
    rows = list(iter_csv_rows(path)) if path.suffix == ".csv" else read_json_rows(path)
    if not rows:
        raise DataError(f"{str(path)!r} holds no row.")
    for where, row in rows:
        if not isinstance(row, dict):
            raise DataError(f"{where} must be an object of fields, not {format_value(row)}.")
    return list(dict.fromkeys(name for _, row in rows for name in row)), rows


def _read_parquet(path: Path) -> tuple[list[str], Rows]:
    """Return the names of the file's columns, and its rows of those that are known; encoded images are not held."""
    known = {*REQUIRED, *(name for names in OPTIONAL.values() for name in names)}
    with open_parquet(path) as file:
        names = list(file.schema_arrow.names)
    embedded = read_embedded_images(path, IMAGE_COLUMNS)
    rows = list(iter_parquet_rows(path, [name for name in names if name in known and name not in embedded]))
    for number, (_, row) in enumerate(rows):
        row.update({column: images[number] for column, images in embedded.items()})
    return names, rows


def _parse_texts(rows: Rows, column: str) -> Texts:
    """Return the values of a column as texts; whole numbers are names, and empty or missing ones None.

    Raises:
        DataError: a value is something else, or no Unicode text.
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
    """Return the images of a column; an id need not be the name of a file.

    Raises:
        DataError: a value is no image, or a name is of a file outside of the folder.
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
    """Return the rows with names, images and types where the file has none.

    An image is named by its caption then, since row 3 of another data set, to learn from, is of another one.
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
    """Return names of types, those that are missing by ``all``, or by ``other`` where there are some."""
    none = OTHER if any(names) else ALL
    return [name or none for name in names]


def _infer_types(type_name: str | None, subtype: str | None) -> tuple[str | None, str | None]:
    """Return type and subtype; ``add`` and ``obj`` are ``add`` and ``add_obj``, as in SugarCrepe."""
    if f"{type_name}_{subtype}" in SUBTYPES:
        subtype = f"{type_name}_{subtype}"
    if type_name is None:
        type_name = str(subtype).partition("_")[0] if subtype in SUBTYPES else None
    return type_name, subtype or type_name
