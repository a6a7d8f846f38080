"""Read encoded images in table cells: bytes, or structs with a field ``bytes`` as on the Hugging Face hub."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from caramel.errors import DataError
from caramel.interfaces.benchmark import ImageFile
from caramel.io.readers import open_parquet
from caramel.io.validators import format_value, is_inside_folder, validate_text

_VERDICTS = frozenset(("true", "1", "1.0", "yes", "false", "0", "0.0", "no"))
_EMPTY = frozenset(("", "nan", "none", "null"))


class ImageCell(NamedTuple):
    """The content key and the path in a cell of images; None where the cell has none."""

    key: str | None
    path: str | None


class ImageReference(NamedTuple):
    """An image that a cell names or holds.

    Attributes:
        name: name of the image; equal names mean equal images.
        file: the file of its bytes. A text is the name of a file in the image folder. None: no file has it.
    """

    name: str
    file: ImageFile | str | None


def read_embedded_images(path: Path, columns: Sequence[str]) -> dict[str, list[ImageReference | None]]:
    """Return the encoded images of a Parquet file, by column and row, for the columns that hold such images.

    Raises:
        DataError: the file is broken, or a path in it is not text.
    """
    with open_parquet(path) as file:
        schema = file.schema_arrow
    where, embedded = repr(str(path)), {}
    for column in columns:
        if column in schema.names and is_encoded(schema.field(column).type):
            check_image_type(schema.field(column).type, column, where)
            cells = read_image_cells(path, column)
            names = name_cells(cells, column, where)
            embedded[column] = [
                _build_reference(name, cell, ImageFile(str(path), n, column))
                for n, (name, cell) in enumerate(zip(names, cells, strict=True))
            ]
    return embedded


def embed_values(values: Sequence[Any], column: str, where: str) -> list[Any]:
    """Return the values of a column of images: encoded images as ``ImageReference``, all others unchanged.

    Raises:
        DataError: a value is an object of another form.
    """
    cells = [_parse_cell(value, column, where) for value in values]
    if not any(cells):
        return list(values)
    names = name_cells([cell or ImageCell(None, None) for cell in cells], column, where)
    return [
        value if cell is None else _build_reference(name, cell, None)
        for value, cell, name in zip(values, cells, names, strict=True)
    ]


def check_no_verdicts(names: Sequence[object], column: str, where: str) -> None:
    """Raise DataError if column ``image`` holds only true and false, as verdicts of other programs do."""
    words = {str(name).strip().lower() for name in names} - _EMPTY
    if column == "image" and words and words <= _VERDICTS:
        raise DataError(
            f"{where}: column {column!r} holds verdicts, such as {min(words)!r}, not names of images. Rename it to "
            f"'image_score' if it is the verdict on the images, or to 'image_id' if it names them."
        )


def is_encoded(data_type: pa.DataType) -> bool:
    """Return whether a column of this type holds bytes, or structs with a field ``bytes``."""
    structs = pa.types.is_struct(data_type) and data_type.get_field_index("bytes") >= 0
    return bool(structs or pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))


def check_image_type(data_type: pa.DataType, column: str, where: str) -> None:
    """Raise DataError unless a column of this type can hold encoded images."""
    if pa.types.is_struct(data_type) and data_type.get_field_index("bytes") >= 0:
        fields = {field.name: field.type for field in data_type}
        data_type, path = fields["bytes"], fields.get("path", pa.null())
        if not any(is_so(path) for is_so in (pa.types.is_string, pa.types.is_large_string, pa.types.is_null)):
            raise DataError(f"{where}: column {column!r} has a field 'path' of type {path}; it must be text.")
    if not (pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type)):
        raise DataError(
            f"{where}: column {column!r} must hold encoded images, as bytes or as a struct with a "
            f"field 'bytes', not {data_type}."
        )


def read_image_cells(path: Path, column: str) -> list[ImageCell]:
    """Return the key and path of each cell of a column of encoded images, reading one row group at a time."""
    cells: list[ImageCell] = []
    with open_parquet(path, [column]) as file:
        for group in range(file.metadata.num_row_groups):
            for chunk in file.read_row_group(group, columns=[column]).column(column).chunks:
                structs = pa.types.is_struct(chunk.type)
                data = chunk.field("bytes") if structs else chunk
                has_path = structs and chunk.type.get_field_index("path") >= 0
                paths = chunk.field("path").to_pylist() if has_path else [None] * len(chunk)
                buffers = (cell.as_buffer() for cell in data)  # None for a null cell
                keys = (hash_image(buffer) if buffer and buffer.size else None for buffer in buffers)
                cells += map(ImageCell, keys, paths)
    return cells


def name_cells(cells: Sequence[ImageCell], column: str, where: str) -> list[str | None]:
    """Return the image name of each cell, or None if the cell has neither content nor path.

    If every image has its own path, the name is the path. Otherwise it is the key of the content. A cell
    without content is named by its path.

    Raises:
        DataError: a path is not Unicode text.
    """
    images = {cell for cell in cells if cell.key or cell.path}
    paths = {cell.path for cell in images}
    distinct = len(images) == len({cell.key for cell in images}) == len(paths) and all(paths)
    return [_name_cell(cell, distinct, column, where) for cell in cells]


def hash_image(data: Any) -> str:
    """Return the key of an image's content."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _name_cell(cell: ImageCell, distinct: bool, column: str, where: str) -> str | None:
    if cell.key and not distinct:
        return cell.key
    return validate_text(cell.path, column, where) if cell.path else None


def _parse_cell(value: Any, column: str, where: str) -> ImageCell | None:
    """Return the key and path of an encoded image, or None for any other value."""
    if isinstance(value, bytes):
        return ImageCell(hash_image(value), None) if value else ImageCell(None, None)
    if not isinstance(value, Mapping):
        return None
    data, path = value.get("bytes"), value.get("path")
    known = "bytes" in value or "path" in value
    if not known or not isinstance(data, bytes | None) or not isinstance(path, str | None):
        raise DataError(
            f"{where}: column {column!r} must hold image names, encoded images, or structs of 'bytes' and "
            f"'path', not {format_value(value)}. Write one of these, or rename the column."
        )
    return ImageCell(hash_image(data) if data else None, path)


def _build_reference(name: str | None, cell: ImageCell, file: ImageFile | None) -> ImageReference | None:
    """Return the reference to an image by its name. ``file`` holds its bytes, if any."""
    if name is None:
        return None
    if file is not None and cell.key is not None:
        return ImageReference(name, file)
    return ImageReference(name, cell.path if cell.path and is_inside_folder(cell.path) else None)
