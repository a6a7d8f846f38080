"""Files read on their own, with the standard library and Arrow, and nothing of caramel: what the oracles go by."""

from __future__ import annotations

import ast
import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from harness import Seen
from mutations_of_tables import ADDED

DATA = ("data/",)


class Unreadable(Exception):
    """A file that no reader can take."""


def _twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unreadable("a key of an object stands twice")
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_twice)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"no JSON: {type(error).__name__}") from None


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable("no UTF-8") from None


def csv_rows(data: bytes) -> list[dict[str, str]]:
    """Return the rows; a line end within a field is a new line, however the file writes it, as in all text files."""
    try:
        rows = [row for row in csv.reader(io.StringIO(_text(data), newline=None), strict=True) if row]
    except csv.Error:
        raise Unreadable("no CSV") from None
    if not rows:
        raise Unreadable("a CSV file without a header")
    header = rows[0]
    if len(set(header)) < len(header):
        raise Unreadable("a column's name stands twice")
    if any(not name.strip() for name in header[1:]):  # the first may be the index that pandas writes
        raise Unreadable("a column without a name")
    if any(len(row) != len(header) for row in rows[1:]):
        raise Unreadable("a row is longer or shorter than the header")
    return [dict(zip(header, row, strict=True)) for row in rows[1:]]


def parquet_rows(data: bytes) -> list[dict[str, Any]]:
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        # Column by column: a reader decodes those that it asks for, and none asks for the one that a mutation adds.
        table = file.read([name for name in file.schema_arrow.names if name != ADDED])
    except (pa.ArrowException, OSError):
        raise Unreadable("no Parquet") from None
    if len(set(file.schema_arrow.names)) < len(file.schema_arrow.names):
        raise Unreadable("a column stands twice")
    return [dict(row) for row in table.to_pylist()]


def rows_of(name: str, data: bytes) -> list[Any]:
    """Return the rows of a file; raise ``Unreadable`` if it must be refused."""
    suffix = PurePosixPath(name).suffix
    if suffix == ".csv":
        return list(csv_rows(data))
    if suffix == ".parquet":
        return list(parquet_rows(data))
    if suffix == ".jsonl":
        return [_json(line) for line in io.StringIO(_text(data), newline=None) if line.strip()]
    if suffix == ".json":
        value = _json(_text(data))
        return (
            list(value.values())
            if isinstance(value, dict)
            else list(value)
            if isinstance(value, list)
            else [value]
        )
    return []


def inputs(seen: Seen, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for name, data in seen.files.items():
        if name.startswith(tuple(names)) and PurePosixPath(name).suffix in (
            ".csv",
            ".json",
            ".jsonl",
            ".parquet",
        ):
            yield name, data


def strings_in(value: Any) -> Iterator[str]:
    """Yield all texts in a value, also those of Python lists that are written as text."""
    if isinstance(value, str):
        yield value
        if value.startswith("["):
            try:
                yield from strings_in(ast.literal_eval(value))
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)


def names_in(value: Any, fields: Sequence[str]) -> Iterator[str]:
    """Yield the texts below the fields."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in fields and isinstance(item, str):
                yield item
            else:
                yield from names_in(item, fields)
    elif isinstance(value, list):
        for item in value:
            yield from names_in(item, fields)


def leaves(name: str) -> bool:
    """Return whether a file's name leads out of the folder."""
    depth = 0
    for part in PurePosixPath(name).parts:
        depth += {"..": -1, ".": 0}.get(part, 1)
        if depth < 0:
            return True
    return name.startswith("/")


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from numbers_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers_in(item)


def plain(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data
