"""Read rows of data files strictly: CSV, JSON, JSON Lines, Python literals and Parquet.

Input that cannot be read as intended is an error that names file and row. Nothing is repaired or left out
silently. ``where`` is the file and row for messages.
"""

from __future__ import annotations

import ast
import csv
import json
import math
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from caramel.errors import DataError, ResourceError
from caramel.io.validators import format_value
from caramel.io.zip_archive import ZippedFile

TextFile = Path | ZippedFile
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NUMPY_LIST = re.compile(rf"\s*\[\s*(?:{_QUOTED})(?:\s+(?:{_QUOTED}))+\s*\]\s*", re.DOTALL)


def read_text(path: TextFile) -> str:
    """Return a UTF-8 file as text, without a byte-order mark.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or contains a NUL.
    """
    return "".join(iter_lines(path))


def iter_lines(path: TextFile, *, newline: str | None = None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file; errors as in ``read_text``.

    Args:
        newline: as in ``open``: each line ends in ``\\n``; with "" as in the file.
    """
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            for line in file:
                if "\0" in line:
                    raise DataError(f"{str(path)!r} contains a NUL: it is damaged, or not UTF-8 text.")
                yield line
    except UnicodeDecodeError as error:
        raise DataError(
            f"{str(path)!r} cannot be read as UTF-8 text: {error}. Save it as UTF-8 (in spreadsheets: CSV UTF-8)."
        ) from error
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{str(path)!r} is damaged: {error}. Download the archive again.") from error


def iter_csv_rows(path: TextFile, columns: Sequence[str] = ()) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (where, row) of a CSV file that has at least these columns. The file is read lazily.

    Rows end in ``\\n``, ``\\r\\n`` or ``\\r``; in a quoted field these stay as they are. Empty lines are skipped. The
    first column may have no name, as when pandas writes its index, and is then dropped.

    Raises:
        DataError: the file is not CSV, its header has a duplicate or empty name or lacks a column, or a row
            has more or fewer fields than the header.
    """
    reader = csv.reader(iter_lines(path, newline=""), strict=True)
    number = 0
    try:
        header = next(filter(None, reader), [])
        _check_header(header, columns, path)
        for number, row in enumerate(filter(None, reader), 1):
            where = f"{str(path)!r}, row {number} (line {reader.line_num})"
            if len(row) != len(header):
                raise DataError(
                    f"{where} has {len(row)} fields, but the header has {len(header)}: {format_value(row)}. Quote a field "
                    f'that contains a comma, a quote or a line end, as in "A dog, brown and big", and write '
                    f"empty fields too."
                )
            yield where, {name: field for name, field in zip(header, row, strict=True) if name}
    except csv.Error as error:
        raise DataError(
            f"{str(path)!r} is not valid CSV: {error}, after row {number} (line {reader.line_num}). Look there for a "
            f"quote that is not closed, or not doubled within a field."
        ) from error


def _check_header(header: list[str], columns: Sequence[str], path: TextFile) -> None:
    """Raise DataError if the column names of a file are invalid."""
    if not header:
        raise DataError(f"{str(path)!r} is empty: its first line must name the columns.")
    nameless = [number for number, name in enumerate(header, 1) if not name.strip() and number > 1]
    if nameless:
        raise DataError(f"{str(path)!r}: column {nameless[0]} of the header has no name. Name or remove it.")
    _check_columns(header, columns, path)


def _check_columns(names: Sequence[str], columns: Sequence[str], path: TextFile) -> None:
    """Raise DataError if a name is a duplicate, or one of these columns is missing."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{str(path)!r} has duplicate columns {format_value(twice)}. Give each its own name.")
    lacking = [name for name in columns if name not in names]
    if lacking:
        raise DataError(f"{str(path)!r} lacks the columns {lacking}; it has {format_value(list(names))}.")


def load_json(text: str, where: str) -> Any:
    """Return the value of a JSON text. NaN, which Python writes for a missing value, becomes None.

    Raises:
        DataError: the text is not JSON or nested too deeply, a number is infinite or too long, or an object
            has duplicate keys.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_reject_duplicate_keys,
            parse_constant=_reject_constant,
            parse_float=_parse_finite,
        )
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not valid JSON: {error}. Download or write it again.") from error


def try_parse_json(text: str | bytes) -> Any:
    """Return the JSON value of a text, or None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # not JSON, an integer of too many digits, or nested too deeply
        return None


def _reject_duplicate_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object. The standard reader would silently keep the last of equal keys."""
    values = dict(items)
    if len(values) < len(items):
        known_keys: set[str] = set()
        twice = {key for key, _ in items if key in known_keys or known_keys.add(key)}  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate keys {format_value(sorted(twice))} in one object")
    return values


def _reject_constant(name: str) -> None:
    if name != "NaN":
        raise ValueError(f"{name} is not a JSON number")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {format_value(text)} is too large")
    return number


def read_json(path: Path) -> Any:
    """Return the value of a JSON file; errors as in ``load_json``."""
    return load_json(read_text(path), repr(str(path)))


def iter_json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (where, row) of the non-empty lines lazily; errors as in ``load_json``."""
    for number, line in enumerate(iter_lines(path), 1):
        if line.strip():
            where = f"{str(path)!r}, line {number}"
            yield where, load_json(line, where)


def read_json_rows(path: Path, key_field: str = "") -> list[tuple[str, Any]]:
    """Return (where, row) of a JSON file that is a list or an object of rows, or of JSON Lines (``.jsonl``).

    Args:
        path: the file.
        key_field: field for the key of each row in an object of rows, if the row lacks this field; empty: none.

    Raises:
        DataError: the file is neither.
    """
    if path.suffix == ".jsonl":
        return list(iter_json_lines(path))
    data = read_json(path)
    if isinstance(data, dict):
        return [
            (
                f"{str(path)!r}, row {format_value(key)}",
                {key_field: key, **row} if key_field and isinstance(row, dict) else row,
            )
            for key, row in data.items()
        ]
    if isinstance(data, list):
        return [(f"{str(path)!r}, row {n}", row) for n, row in enumerate(data)]
    raise DataError(f"{str(path)!r} must be a list or an object of rows, not {format_value(data)}.")


def parse_literal(text: str, where: str) -> Any:
    """Return the value of a Python literal. Nothing is executed.

    Raises:
        DataError: the text is not a literal, is nested too deeply, or is a list as numpy prints it, whose texts
            Python would join into one.
    """
    if insert_commas(text) != text:
        raise DataError(
            f"{where}: the items of {format_value(text)} are not separated by commas, as if numpy had printed them. "
            f"Write the list with commas."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" is read as is, as in the releases' own code
            return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise DataError(f"{where}: {format_value(text)} is not a Python literal: {error}.") from error


def insert_commas(text: str) -> str:
    """Return a list of texts as numpy prints it, ``['a' 'b']``, with commas; any other text unchanged."""
    if not _NUMPY_LIST.fullmatch(text):
        return text
    return f"[{', '.join(re.findall(_QUOTED, text, re.DOTALL))}]"


@contextmanager
def open_parquet(path: Path, columns: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file that has at least these columns. Errors while it is read are explained.

    Raises:
        DataError: the file cannot be read, is not Parquet, is damaged, has duplicate columns, or lacks a
            column.
        ResourceError: the file does not fit into memory.
    """
    try:
        with pq.ParquetFile(path.absolute()) as file:  # a relative a:b/c would be taken for a URL
            _check_columns(file.schema_arrow.names, columns, path)
            yield file
    except pa.ArrowMemoryError as error:
        raise ResourceError(f"{str(path)!r} does not fit into memory: {error}.") from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno:  # a system error; Arrow's own errors have no number
            raise DataError(f"{str(path)!r} cannot be read: {os.strerror(error.errno)}.") from error
        raise DataError(
            f"{str(path)!r} is not a Parquet file: {error}. Download or write it again."
        ) from error


def iter_parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where, row) of these columns of a Parquet file in batches; errors as in ``open_parquet``."""
    number = 0
    with open_parquet(path, columns) as file:
        for batch in file.iter_batches(columns=list(columns)):
            for row in batch.to_pylist():
                yield f"{str(path)!r}, row {number}", row
                number += 1
