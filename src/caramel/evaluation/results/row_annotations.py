"""Read model, instance, image and subsets of external rows from the columns that name them."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from caramel.benchmarks.embedded_images import ImageReference, check_no_verdicts, embed_values
from caramel.errors import DataError
from caramel.evaluation.results.contradictions import check_subtype
from caramel.evaluation.results.summary import MACRO
from caramel.io.readers import insert_commas
from caramel.io.validators import format_value, validate_text
from caramel.schemas.columns import SUBTYPES

NAMES: Mapping[str, tuple[str, ...]] = {  # our column -> external columns; the first one that exists is used
    "instance_id": ("instance_id", "id"),
    "image_id": ("image_id", "filename", "image"),
    "model": ("model",),
}
SUBSETS = ("subsets", "subset", "type", "subtype", "split", "category")  # all that exist are used


def describe_rows(
    rows: pd.DataFrame, source: str, stem: str, locations: Sequence[str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return model, instance_id, image_id and subsets of the rows, and notes on what is unknown."""
    columns = {
        name: next((rows[c] for c in NAMES[name] if c in rows.columns), None)
        for name in ("instance_id", "model")
    }
    subsets = _read_subsets(rows, locations)
    part = ""
    named = next((s for s in SUBTYPES if stem.endswith(s)), "")
    notes = []
    if subsets and named and not any(named in of_row for of_row in subsets):
        notes.append(
            f"{source} is named after subset {named!r}, but none of its rows is in that subset. The columns count, not "
            f"the file's name."
        )
    if subsets is None:
        part = named
        stem = stem.removesuffix(part).rstrip("-_ ") or stem
        subsets = [_add_types([part]) if part else []] * len(rows)
    ids = (
        range(len(rows)) if columns["instance_id"] is None else _read_names(columns["instance_id"], locations)
    )
    images, unusable = _read_images(rows, source, locations)
    if images is not None:
        notes += unusable
    else:
        images = [f"row {n}" for n in range(len(rows))]
        notes.append(
            f"{' '.join([*unusable, source])} names no images. Each instance counts as an image of its own, and the "
            f"intervals are too short if images have several instances."
        )
    models = columns["model"]
    described = {
        "model": [stem] * len(rows) if models is None else _read_names(models, locations),
        "instance_id": [f"{part}/{name}" if part else name for name in ids],
        "image_id": images,
        "subsets": subsets,
    }
    return pd.DataFrame(described), tuple(notes)


def _read_names(column: pd.Series, locations: Sequence[str]) -> list[str]:
    """Return the names in a column, which must be non-empty texts or whole numbers."""
    for name, where in zip(column, locations, strict=True):
        if isinstance(name, bool | np.bool_) or not isinstance(name, str | int | np.integer) or name == "":
            raise DataError(f"{where}: {format_value(name)} in column {column.name!r} is not a name.")
    return [
        validate_text(str(name), str(column.name), where)
        for name, where in zip(column, locations, strict=True)
    ]


def _read_images(
    rows: pd.DataFrame, source: str, locations: Sequence[str]
) -> tuple[list[str] | None, list[str]]:
    """Return the names of the images, None if no column has them, and a note on each image column without names.

    Raises:
        DataError: a column holds verdicts, such as the image score, or a name that no table can hold.
    """
    notes: list[str] = []
    for column in (name for name in NAMES["image_id"] if name in rows.columns):
        values = embed_values(list(rows[column]), column, source)
        names = [value.name if isinstance(value, ImageReference) else value for value in values]
        if all(_is_empty(name) for name in names):
            continue
        check_no_verdicts(names, column, source)
        wrong = next((n for n, name in enumerate(names) if not _is_image(name)), None)
        if wrong is None:
            texts = [validate_text(str(name), "image", at) for name, at in zip(names, locations, strict=True)]
            return texts, notes
        notes.append(
            f"{locations[wrong]}: {format_value(names[wrong])} in column {column!r} is not an image name, so the "
            f"column is ignored. Write names, or encoded images."
        )
    return None, notes


def _is_empty(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and value != value)
        or (isinstance(value, str) and not value)
    )


def _is_image(name: Any) -> bool:
    number = isinstance(name, int | np.integer) and not isinstance(name, bool)
    return number or (isinstance(name, str) and name[:1] not in ("", "<"))


def _read_subsets(rows: pd.DataFrame, locations: Sequence[str]) -> list[list[str]] | None:
    """Return the subsets of each row, None if no column names them.

    Type ``add`` and subtype ``obj`` give the subsets ``add`` and ``add_obj``.
    """
    columns = [name for name in SUBSETS if name in rows.columns]
    if not columns:
        return None
    subsets = []
    for values, where in zip(rows[columns].to_dict("records"), locations, strict=True):
        type_name, part = (str(values.get(name, "")) for name in ("type", "subtype"))
        check_subtype(type_name, part, where)
        if f"{type_name}_{part}" in SUBTYPES:
            values["subtype"] = f"{type_name}_{part}"
        names = [
            _check_subset_name(name, str(column), where)
            for column, cell in values.items()
            for name in _parse_names(cell)
        ]
        subsets.append(_add_types(names))
    return subsets


def _check_subset_name(name: str, column: str, where: str) -> str:
    if name in ("all", MACRO):
        raise DataError(
            f"{where}: a subset in column {column!r} is called {name!r}, which is the name of a mean. "
            f"Rename the subset."
        )
    return validate_text(name, column, where)


def _parse_names(value: Any) -> list[str]:
    """Return the non-empty names in a cell: one name, several, or a list in JSON or Python syntax."""
    names = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    if isinstance(value, str) and value.startswith("["):
        names = _parse_list(value)
    return [
        str(name) for name in names if not (pd.api.types.is_scalar(name) and (pd.isna(name) or name == ""))
    ]


def _parse_list(text: str) -> list[Any]:
    """Parse a list as JSON, Python or numpy write it, or a mixture; a text that only looks like a list is one name."""
    commas = insert_commas(text)
    for parse, written in (
        (json.loads, text),
        (ast.literal_eval, commas),
        (json.loads, text.replace("'", '"')),
    ):
        try:
            parsed = parse(written)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(parsed, list):
            return parsed
    return [text]


def _add_types(names: Sequence[str]) -> list[str]:
    """Return the distinct names, with the types of SugarCrepe subtypes added at the front."""
    types = [name.partition("_")[0] for name in names if name in SUBTYPES]
    return list(dict.fromkeys([*types, *names]))
