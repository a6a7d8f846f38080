"""Read the stages' outputs for the report, with clear errors and with skipped stages as a state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.errors import DataError
from caramel.io.image_store import ImageStore
from caramel.io.regular_files import read_plain_text
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table


class StageSkipped(Exception):
    """A stage did not apply; the text is the reason that it wrote."""


def read_json(path: Path) -> dict[str, Any]:
    """Return a stage's JSON object.

    Raises:
        StageSkipped: the stage did not apply.
        DataError: the file is missing, or is not a JSON object.
    """
    try:
        data = json.loads(read_plain_text(path))
    except FileNotFoundError:
        raise DataError(f"{path} is missing. Run `dvc repro` to build it.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}. Remove it and run `dvc repro`.") from error
    if not isinstance(data, dict):
        raise DataError(f"{path} must hold a JSON object, not {type(data).__name__}.")
    if "skipped" in data:
        raise StageSkipped(str(data["skipped"]))
    return data


def read_csv(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Return a stage's CSV file with these columns.

    Raises:
        StageSkipped: the stage did not apply.
        DataError: the file is missing, not CSV, or lacks a column.
    """
    for folder in (path, path.parent):  # a stage writes the reason into each folder that it did not fill
        if (folder / "SKIPPED.txt").is_file():
            raise StageSkipped((folder / "SKIPPED.txt").read_text(encoding="utf-8").strip())
    try:
        rows = pd.read_csv(path, keep_default_na=False, na_values=[""])  # a model may be named NA
    except FileNotFoundError:
        raise DataError(f"{path} is missing. Run `dvc repro` to build it.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid CSV: {error}. Remove it and run `dvc repro`.") from error
    if list(rows.columns) == ["skipped"]:
        raise StageSkipped(str(rows["skipped"].iloc[0]) if len(rows) else "no reason given")
    lacking = [c for c in columns if c not in rows.columns]
    if lacking:
        raise DataError(f"{path} lacks the columns {lacking}; it has {list(rows.columns)}.")
    return rows


def read_images(path: Path, image_ids: Sequence[str]) -> dict[str, bytes]:
    """Return the encoded files of some images of an ``images`` table.

    Raises:
        DataError: the table or a shard is missing or broken, or the table lacks an image.
    """
    pictures = ImageStore(path, read_table(IMAGES, path))
    if lacking := sorted(set(image_ids) - set(pictures)):
        raise DataError(f"{path} lacks {len(lacking)} images, such as {lacking[0]!r}. Run `dvc repro`.")
    return {name: pictures[name] for name in image_ids}


def get_value(data: Any, *keys: str, where: Path) -> Any:
    """Return ``data[key][key]…``.

    Raises:
        DataError: a key is missing; the message names it and the file.
    """
    for depth, key in enumerate(keys):
        if not isinstance(data, dict) or key not in data:
            raise DataError(f"{where} lacks the key {'.'.join(keys[: depth + 1])!r}.")
        data = data[key]
    return data


def get_number(data: Any, *keys: str, where: Path) -> float:
    """Return a number at a path of keys, NaN for null.

    Raises:
        DataError: a key is missing, or its value is not a number.
    """
    entry = get_value(data, *keys, where=where)
    if entry is None:
        return float("nan")
    if isinstance(entry, bool) or not isinstance(entry, int | float):
        raise DataError(f"{where}: {'.'.join(keys)!r} must be a number, not {entry!r}.")
    return float(entry)
