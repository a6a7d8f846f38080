"""Read the rows of external results files in any known format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.io.readers import iter_csv_rows, open_parquet, read_json, read_json_rows
from caramel.io.validators import format_value

FORMATS = (".csv", ".json", ".jsonl", ".parquet")
SUMMARY = "accuracy"  # key in a file of rows by id (SugarCrepe's GPT-4V) whose value is a number, not a row
IDS = ("instance_id", "id")


def read_rows(path: Path, is_known: Callable[[str], bool]) -> tuple[pd.DataFrame, list[str]]:
    """Read the rows of a file of a known format; also return the location of each row for messages.

    If the file is a JSON object of rows, its keys are the ids of the rows, unless a column holds ids.

    Args:
        path: the file.
        is_known: returns whether a column is used; other columns of a Parquet file are not read.

    Raises:
        DataError: the file is missing, broken, of another format, or has no rows.
    """
    if path.suffix not in FORMATS or not path.is_file():
        what = "does not exist" if not path.is_file() else "has an unknown format"
        raise DataError(f"{str(path)!r} {what}. Known formats: {', '.join(FORMATS)}.")
    rows, locations = _read_parquet(path, is_known) if path.suffix == ".parquet" else _read_text_rows(path)
    if rows.empty:
        raise DataError(f"{str(path)!r} has no rows.")
    return rows, locations


def _read_parquet(path: Path, is_known: Callable[[str], bool]) -> tuple[pd.DataFrame, list[str]]:
    with open_parquet(path) as file:
        names = [name for name in file.schema_arrow.names if is_known(name)]
        whole = file.read(columns=names)
        whole.validate(full=True)  # otherwise invalid text would raise another error in the next line
        rows: pd.DataFrame = whole.replace_schema_metadata(None).to_pandas(integer_object_nulls=True)
        rows = rows.reindex(columns=[*names, *(n for n in file.schema_arrow.names if n not in names)])
    return rows, [f"{str(path)!r}, row {number}" for number in range(len(rows))]


def _read_text_rows(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Read the rows of a text file: CSV, JSON or JSON Lines."""
    keys: list[str] = []
    if path.suffix == ".csv":
        named: list[tuple[str, Any]] = list(iter_csv_rows(path))
    elif path.suffix == ".json" and isinstance(data := read_json(path), dict):
        if isinstance(data.get(SUMMARY), int | float) and len(data) > 1:
            del data[SUMMARY]
        keys = list(data)
        named = [(f"{str(path)!r}, row {format_value(key)}", row) for key, row in data.items()]
    else:
        named = read_json_rows(path)
    for where, row in named:
        if not isinstance(row, dict):
            raise DataError(f"{where} must be an object of fields, not {format_value(row)}.")
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:  # JSON can escape half of a surrogate pair
            raise DataError(f"{where} holds a text that is not valid Unicode: {error}.") from error
    rows = pd.DataFrame([row for _, row in named], dtype=object)
    if keys and not rows.empty and not set(IDS) & set(rows.columns):
        rows = rows.assign(**{IDS[0]: keys})
    return rows, [where for where, _ in named]


def number_or_nan(value: Any) -> float | None:
    """Return the number that a value is or spells as text; NaN for an empty value, None for anything else."""
    if value is None or (isinstance(value, str) and value.strip().lower() in ("", "nan")):
        return np.nan
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | float | np.number):
        return None
    try:
        return None if isinstance(value, str) and "_" in value else float(value)
    except (ValueError, OverflowError):
        return None
