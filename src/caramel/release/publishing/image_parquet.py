"""Tables with their pictures in them, as Parquet that the library ``datasets`` reads: a few rows are in memory at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from caramel.io.image_store import Pictures
from caramel.release.publishing.contents import named
from caramel.schemas.contracts import BOOL, FLOAT, INT, TEXT, TEXTS, Table

PART = 256 << 20  # bytes of pictures, from which on a file is full
GROUP = 100  # rows of a row group, as the hub's viewer wants them
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_VALUES = {TEXT: "string", FLOAT: "float64", INT: "int64", BOOL: "bool"}
_IMAGE = {"_type": "Image"}


class Shown(NamedTuple):
    """A column of pictures that is added behind the column that names them."""

    column: str
    by: str


SHOWN = (
    Shown("image", "image_id"),
    Shown("negative_image", "negative_image_id"),
    Shown("negative_images", "negative_image_ids"),
)


def features(table: Table) -> dict[str, Any]:
    """Return the columns of a released table as ``datasets`` writes them down, pictures included."""
    found: dict[str, Any] = {}
    for name, column in table.columns.items():
        value = {"dtype": _VALUES.get(column.type, "string"), "_type": "Value"}
        found[name] = {"feature": value, "_type": "Sequence"} if column.type == TEXTS else value
        for shown in (s for s in SHOWN if s.by == name):
            found[shown.column] = {"feature": _IMAGE, "_type": "Sequence"} if column.type == TEXTS else _IMAGE
    return found


def schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of a released table, with its features."""
    fields = []
    for name, column in table.columns.items():
        fields.append(pa.field(name, column.type))
        kind = pa.list_(PICTURE) if column.type == TEXTS else PICTURE
        fields += [pa.field(shown.column, kind) for shown in SHOWN if shown.by == name]
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features(table)}})})


def write_pictured(
    table: Table, rows: pd.DataFrame, pictures: Pictures, sizes: Callable[[str], int], folder: Path
) -> list[Path]:
    """Write rows and their pictures to ``SPLIT-00000-of-00002.parquet`` in a folder; return the files.

    Equal rows and images give equal bytes. Each image is compared with its SHA-256.

    Args:
        table: their contract.
        rows: with a column ``split``.
        pictures: the images that they name.
        sizes: image_id -> bytes of its encoded file.
        folder: of the files.

    Raises:
        DataError: an image is missing, or is not what the index says.
    """
    folder.mkdir(parents=True)
    form, written = schema(table), []
    for split in dict.fromkeys(rows["split"]):
        of_split = rows[rows["split"] == split]
        parts = _parts(of_split, sizes)
        for number, (start, end) in enumerate(parts):
            path = folder / f"{split}-{number:05}-of-{len(parts):05}.parquet"
            with pq.ParquetWriter(
                path, form, compression="zstd", use_dictionary=False, write_statistics=False
            ) as writer:
                for at in range(start, end, GROUP):
                    writer.write_table(_group(of_split.iloc[at : min(at + GROUP, end)], form, pictures))
            written.append(path)
    return written


def _parts(rows: pd.DataFrame, sizes: Callable[[str], int]) -> list[tuple[int, int]]:
    """Return first and last row of each file."""
    found, start, held = [], 0, 0
    for number, names in enumerate(_names(rows)):
        held += sum(map(sizes, names))
        if held >= PART:
            found.append((start, number + 1))
            start, held = number + 1, 0
    return [*found, (start, len(rows))] if start < len(rows) else found


def _names(rows: pd.DataFrame) -> Iterator[list[str]]:
    columns = [rows[shown.by] for shown in SHOWN if shown.by in rows]
    for cells in zip(*columns, strict=True):
        yield [name for cell in cells for name in named(cell)]


def _group(rows: pd.DataFrame, form: pa.Schema, pictures: Pictures) -> pa.Table:
    """Return some rows with their pictures."""
    by = {shown.column: shown.by for shown in SHOWN}
    columns = []
    for field in form:
        if field.name not in by:
            columns.append(pa.array(rows[field.name], field.type, from_pandas=True))
            continue
        cells = [[_picture(name, pictures) for name in named(cell)] for cell in rows[by[field.name]]]
        single: Sequence[Any] = [cell[0] if cell else None for cell in cells]
        columns.append(pa.array(cells if pa.types.is_list(field.type) else single, field.type))
    return pa.Table.from_arrays(columns, schema=form)


def _picture(name: str, pictures: Pictures) -> dict[str, Any]:
    return {"bytes": pictures.checked(name), "path": None}
