"""Images that stand in the cells of a table: bytes, or structs with a field ``bytes``, as the Hugging Face hub has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from caramel.benchmarks.pairs import ImageCell, hash_image, name_cells, read_image_cells
from caramel.errors import DataError
from caramel.kinds.benchmark import ImageFile
from caramel.storage.fields import brief
from caramel.storage.records import parquet


class EmbeddedImage(NamedTuple):
    """An image of a cell.

    Attributes:
        name: equal names mean equal images.
        file: where its bytes lie; None: in no file, or in one that only ``name`` says.
    """

    name: str
    file: ImageFile | None


def read_embedded(path: Path, columns: Sequence[str]) -> dict[str, list[EmbeddedImage | None]]:
    """Return the images of those columns of a Parquet file that can hold them, by column and row.

    Raises:
        DataError: the file is broken.
    """
    with parquet(path) as file:
        schema = file.schema_arrow
    embedded = {}
    for column in (name for name in columns if name in schema.names and _holds_images(schema.field(name))):
        cells = read_image_cells(path, column)
        files = [
            None if cell.key is None else ImageFile(str(path), n, column) for n, cell in enumerate(cells)
        ]
        embedded[column] = _embed(cells, files, column, repr(str(path)))
    return embedded


def embed_values(values: Sequence[Any], column: str, where: str) -> list[Any]:
    """Return the values of a column of images, those that are encoded images as ``EmbeddedImage``; others as they are.

    Raises:
        DataError: a value is a struct of something else.
    """
    cells = [_cell(value, column, where) for value in values]
    if not any(cells):
        return list(values)
    images = _embed([cell or ImageCell(None, None) for cell in cells], [None] * len(cells), column, where)
    return [image if cell else value for cell, image, value in zip(cells, images, values, strict=True)]


def _cell(value: Any, column: str, where: str) -> ImageCell | None:
    """Return the key and the path of an encoded image, None of any other value."""
    if isinstance(value, bytes):
        return ImageCell(hash_image(value), None)
    if not isinstance(value, Mapping):
        return None
    data, path = value.get("bytes"), value.get("path")
    if not isinstance(data, bytes | None) or not isinstance(path, str | None):
        raise DataError(
            f"{where}: column {column!r} must hold texts, encoded images, or structs of 'bytes' and 'path', "
            f"not {brief(value)}."
        )
    return ImageCell(hash_image(data) if data else None, path)


def _embed(
    cells: Sequence[ImageCell], files: Sequence[ImageFile | None], column: str, where: str
) -> list[EmbeddedImage | None]:
    names = name_cells(cells, column, where)
    return [
        None if name is None else EmbeddedImage(name, file) for name, file in zip(names, files, strict=True)
    ]


def _holds_images(field: pa.Field) -> bool:
    """Return whether a column's type is bytes, or a struct with such a field ``bytes`` and a text ``path``, if any."""
    kind = field.type
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        fields = {one.name: one.type for one in kind}
        path = fields.get("path", pa.null())
        kind = fields["bytes"]
        if not (pa.types.is_string(path) or pa.types.is_large_string(path) or pa.types.is_null(path)):
            return False
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
