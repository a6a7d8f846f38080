"""Write tables with their images as Parquet for the library ``datasets``, with only a few rows in memory at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from caramel.io.image_store import ImageStore
from caramel.release.publishing.contents import list_names
from caramel.schemas.contracts import BOOL, FLOAT, INT, TEXT, TEXTS, Table

PART = 256 << 20  # bytes of images after which a file is full
GROUP = 100  # rows of a row group, as the hub's viewer expects
IMAGE_STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_VALUES = {TEXT: "string", FLOAT: "float64", INT: "int64", BOOL: "bool"}
_IMAGE = {"_type": "Image"}


class ImageColumn(NamedTuple):
    """An image column that is added after the column with its ids."""

    column: str
    by: str


IMAGE_COLUMNS = (
    ImageColumn("image", "image_id"),
    ImageColumn("negative_image", "negative_image_id"),
    ImageColumn("negative_images", "negative_image_ids"),
)


def build_features(table: Table) -> dict[str, Any]:
    """Return the features of a released table in the form of ``datasets``, images included."""
    fields: dict[str, Any] = {}
    for name, column in table.columns.items():
        value = {"dtype": _VALUES.get(column.type, "string"), "_type": "Value"}
        fields[name] = {"feature": value, "_type": "Sequence"} if column.type == TEXTS else value
        for image_column in (s for s in IMAGE_COLUMNS if s.by == name):
            fields[image_column.column] = (
                {"feature": _IMAGE, "_type": "Sequence"} if column.type == TEXTS else _IMAGE
            )
    return fields


def build_schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of a released table with its features."""
    fields = []
    for name, column in table.columns.items():
        fields.append(pa.field(name, column.type))
        image_type = pa.list_(IMAGE_STRUCT) if column.type == TEXTS else IMAGE_STRUCT
        fields += [
            pa.field(image_column.column, image_type)
            for image_column in IMAGE_COLUMNS
            if image_column.by == name
        ]
    return pa.schema(
        fields, metadata={"huggingface": json.dumps({"info": {"features": build_features(table)}})}
    )


def write_with_images(
    table: Table, rows: pd.DataFrame, pictures: ImageStore, sizes: Callable[[str], int], folder: Path
) -> list[Path]:
    """Write rows and their images to ``SPLIT-00000-of-00002.parquet`` in a folder; return the files.

    Equal rows and images give equal bytes. Each image is checked against its SHA-256.

    Args:
        table: their contract.
        rows: with a column ``split``.
        pictures: the images that rows refer to.
        sizes: image_id -> bytes of its encoded file.
        folder: of the files.

    Raises:
        DataError: an image is missing, or does not match the index.
    """
    folder.mkdir(parents=True)
    form, written = build_schema(table), []
    for split in dict.fromkeys(rows["split"]):
        of_split = rows[rows["split"] == split]
        parts = _plan_files(of_split, sizes)
        for number, (start, end) in enumerate(parts):
            path = folder / f"{split}-{number:05}-of-{len(parts):05}.parquet"
            with pq.ParquetWriter(
                path, form, compression="zstd", use_dictionary=False, write_statistics=False
            ) as writer:
                for at in range(start, end, GROUP):
                    writer.write_table(
                        _build_row_group(of_split.iloc[at : min(at + GROUP, end)], form, pictures)
                    )
            written.append(path)
    return written


def _plan_files(rows: pd.DataFrame, sizes: Callable[[str], int]) -> list[tuple[int, int]]:
    """Return the first and last row of each file."""
    ranges, start, held = [], 0, 0
    for number, names in enumerate(_iter_image_names(rows)):
        held += sum(map(sizes, names))
        if held >= PART:
            ranges.append((start, number + 1))
            start, held = number + 1, 0
    return [*ranges, (start, len(rows))] if start < len(rows) else ranges


def _iter_image_names(rows: pd.DataFrame) -> Iterator[list[str]]:
    columns = [rows[image_column.by] for image_column in IMAGE_COLUMNS if image_column.by in rows]
    for cells in zip(*columns, strict=True):
        yield [name for cell in cells for name in list_names(cell)]


def _build_row_group(rows: pd.DataFrame, form: pa.Schema, pictures: ImageStore) -> pa.Table:
    """Return a row group with its images."""
    by = {image_column.column: image_column.by for image_column in IMAGE_COLUMNS}
    columns = []
    for field in form:
        if field.name not in by:
            columns.append(pa.array(rows[field.name], field.type, from_pandas=True))
            continue
        cells = [[_load_image(name, pictures) for name in list_names(cell)] for cell in rows[by[field.name]]]
        single: Sequence[Any] = [cell[0] if cell else None for cell in cells]
        columns.append(pa.array(cells if pa.types.is_list(field.type) else single, field.type))
    return pa.Table.from_arrays(columns, schema=form)


def _load_image(name: str, pictures: ImageStore) -> dict[str, Any]:
    return {"bytes": pictures.read_verified(name), "path": None}
