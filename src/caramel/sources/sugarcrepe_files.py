"""Read the public files of SugarCrepe and SugarCrepe++: captions, hard negatives and paraphrases.

SugarCrepe has one JSON object per subtype, ``{"0": {filename, caption, negative_caption}, …}`` (Hsieh et al.
2023). SugarCrepe++ has one JSON list per subtype, ``[{id, filename, caption, caption2, negative_caption},
…]`` (Dumpala et al. 2024). Other fields are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.errors import DataError, format_items
from caramel.io.readers import read_json
from caramel.io.validators import format_value, read_name_field, read_text_field
from caramel.schemas.columns import SUBTYPES

COLUMNS = ("pair_id", "image_id", "subtype", "caption", "caption2", "negative_caption")


def list_subtype_files(path: Path) -> list[Path]:
    """Return the files of a folder whose names are subtypes, in the order of the taxonomy."""
    return [file for file in (path / f"{subtype}.json" for subtype in SUBTYPES) if file.is_file()]


def read_captions(path: str | Path) -> pd.DataFrame:
    """Return one row per instance: pair_id, image_id, subtype, caption, caption2, negative_caption.

    A pair's id is ``subtype-index``; the index is the row's key (SugarCrepe) or its ``id`` (SugarCrepe++). An
    image's id is its file name. ``caption2`` is None if the source has none. Texts are not changed.

    Args:
        path: folder with files of at least one subtype, or one such file.

    Raises:
        DataError: the folder or file does not exist, its JSON is invalid, or a field is missing, empty or not
            text.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"{str(path)!r} does not exist. Give a folder of SugarCrepe-format JSON files.")
    files = list_subtype_files(path) if path.is_dir() else [path]
    if not files or files[0].stem not in SUBTYPES:
        raise DataError(
            f"{str(path)!r} contains no SugarCrepe-format file. A file is named after its "
            f"subtype; expected one of:\n"
            f"{format_items([f'{subtype}.json' for subtype in SUBTYPES], len(SUBTYPES))}"
        )
    rows = [row for file in files for row in _iter_rows(file)]
    if not rows:
        raise DataError(f"{str(path)!r} contains no rows: its files are empty.")
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(object).replace({float("nan"): None})


def _iter_rows(file: Path) -> Iterator[tuple[str, str, str, str, str | None, str]]:
    """Yield the checked rows of one file."""
    subtype, known_ids = file.stem, set()
    for index, row in _iter_indexed_rows(read_json(file), file):
        where = f"{str(file)!r}, row {format_value(index)}"
        if index in known_ids:
            raise DataError(f"{where}: duplicate id. Give each row of the file its own id.")
        known_ids.add(index)
        name = read_name_field(row, "filename", where)
        caption, negative = (read_text_field(row, field, where) for field in ("caption", "negative_caption"))
        caption2 = read_text_field(row, "caption2", where) if "caption2" in row else None
        yield f"{subtype}-{index}", name, subtype, caption, caption2, negative


def _iter_indexed_rows(data: Any, file: Path) -> Iterator[tuple[str, Any]]:
    """Yield (index, row) for both formats."""
    if isinstance(data, dict):
        for key in data:
            read_text_field({"key": key}, "key", f"{str(file)!r}, a row's key")
            yield key, data[key]
    elif isinstance(data, list):
        for number, row in enumerate(data):
            where = f"{str(file)!r}, row number {number} of the list"
            read_text_field(row, "caption2", where)
            index = row.get("id", number)
            if isinstance(index, bool) or not isinstance(index, int):
                raise DataError(f"{where}: field 'id' must be a whole number, not {format_value(index)}.")
            yield str(index), row
    else:
        raise DataError(
            f"{str(file)!r} must be an object of rows (SugarCrepe) or a list of rows (SugarCrepe++), "
            f"not {format_value(data)}."
        )
