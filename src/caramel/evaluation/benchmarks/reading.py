"""What the readers of public release formats share: files, rows, fields, folders, with clear errors."""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from caramel.errors import DataError
from caramel.sources.sugarcrepe import brief, load_json, read_text, text_field

__all__ = [
    "brief",
    "csv_rows",
    "first_holding",
    "found",
    "image_folder",
    "json_rows",
    "literal",
    "parquet_files",
    "text_field",
]


def found(folder: Path, names: Iterable[str], layout: str) -> list[Path]:
    """Return those of the named files that the folder holds.

    Raises:
        DataError: it holds none; the message says what was looked for and how the folder should look.
    """
    names = list(names)
    files = [folder / name for name in names if (folder / name).is_file()]
    if not files:
        raise DataError(
            f"{str(folder)!r} holds none of {', '.join(names)}. Expected layout:\n{layout}\n"
            f"Give the folder that holds it with --data."
        )
    return files


def json_rows(path: Path) -> list[tuple[str, Any]]:
    """Return (where, row) of a JSON file that is a list or an object of rows, or of JSON Lines.

    ``where`` names file and row in messages.

    Raises:
        DataError: it is neither.
    """
    text = read_text(path)
    if path.suffix == ".jsonl":
        lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        return [
            (f"{str(path)!r}, line {n}", load_json(line, f"{str(path)!r}, line {n}")) for n, line in lines
        ]
    data = load_json(text, repr(str(path)))
    if isinstance(data, dict):
        return [(f"{str(path)!r}, row {brief(key)}", row) for key, row in data.items()]
    if isinstance(data, list):
        return [(f"{str(path)!r}, row {n}", row) for n, row in enumerate(data)]
    raise DataError(f"{str(path)!r} must be a list or an object of rows, not {brief(data)}.")


def csv_rows(path: Path, columns: Sequence[str], delimiter: str = ",") -> list[tuple[str, dict[str, str]]]:
    """Return (where, row) of a CSV file that has at least these columns.

    Raises:
        DataError: it is no CSV, a column is missing, or a row is too short.
    """
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), delimiter=delimiter, strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise DataError(f"{str(path)!r} is not valid CSV: {error}.") from error
    lacking = [name for name in columns if name not in (reader.fieldnames or [])]
    if lacking:
        raise DataError(f"{str(path)!r} lacks the columns {lacking}; it has {reader.fieldnames}.")
    found_rows = [(f"{str(path)!r}, row {n}", row) for n, row in enumerate(rows)]
    for where, row in found_rows:
        if any(row[name] is None for name in columns):
            raise DataError(f"{where} has too few fields.")
    return found_rows


def parquet_files(folder: Path, pattern: str, columns: Sequence[str], layout: str) -> list[Path]:
    """Return the Parquet files of a pattern, in order of their names; each has at least these columns.

    Raises:
        DataError: there is none, one is broken, or lacks a column.
    """
    files = sorted(folder.glob(pattern))
    if not files:
        raise DataError(f"{str(folder)!r} holds no {pattern}. Expected layout:\n{layout}")
    for path in files:
        try:
            names = pq.read_schema(path).names
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{str(path)!r} is no Parquet file: {error}. Download it again.") from error
        lacking = [name for name in columns if name not in names]
        if lacking:
            raise DataError(f"{str(path)!r} lacks the columns {lacking}; it has {names}.")
    return files


def literal(text: str, where: str) -> Any:
    """Return the value of a Python literal; nothing is evaluated.

    Raises:
        DataError: it is no literal.
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise DataError(f"{where}: {brief(text)} is no Python literal: {error}.") from error


def image_folder(images: Path, names: Sequence[str], folders: Sequence[str]) -> Path:
    """Return the folder, ``images`` itself or one of these below it, that holds the images.

    It is the first that holds any of the images; ``images`` if none does, so that the check of the images can
    list all that are missing.
    """
    return first_holding([images, *(images / name for name in folders)], names) or images


def first_holding(folders: Sequence[Path], names: Sequence[str]) -> Path | None:
    """Return the first of the folders that holds any of the named files, None if none does."""
    for some in (names[:20], names[20:]):  # nearly always the first ones tell
        for folder in folders:
            if any((folder / name).is_file() for name in some):
                return folder
    return None
