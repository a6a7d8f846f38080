"""Others' files of per-instance results: CSV, JSON, JSON Lines or Parquet, a row per instance.

A column is

- a score, named as in table ``similarities`` (``s_c0_i0`` …), from which the metrics are computed, or
- the verdict on a metric, true or false, named as the metric in any case (``ITT``, ``T2I`` …), or as the releases
  of BiVLC (``text_score_i0`` …, later ``Ipos_2T`` …), Winoground (``text_score`` …) and SugarCrepe (``correct``) name
  it. Empty is not scored; ties cannot be seen.

Where there are both, the scores count, and a verdict that they contradict is an error. Beside these there may be the instance, its image, its subsets and the model;
other columns are left out. A file of BiVLC's detectors has probabilities of its own (``detector_files``).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from caramel import tables
from caramel.benchmarks.embedded_images import ImageReference, check_no_verdicts, embed_values
from caramel.benchmarks.metrics import METRICS, RECALLS, Outcomes, outcomes
from caramel.errors import DataError
from caramel.evaluation.results.contradictions import check_ranks, check_subtype, check_verdicts
from caramel.evaluation.results.detector_files import COLUMNS, detected, is_detections
from caramel.evaluation.results.released_answers import answers_of, is_answers
from caramel.evaluation.results.result_rows import number_or_nan, read_rows
from caramel.evaluation.results.summary import MACRO
from caramel.storage.fields import brief, checked_text
from caramel.tables import SUBTYPES

NAMES: Mapping[str, tuple[str, ...]] = {  # ours -> columns of others, the first that is there
    "instance_id": ("instance_id", "id"),
    "image_id": ("image_id", "filename", "image"),
    "model": ("model",),
}
SUBSETS = ("subsets", "subset", "type", "subtype", "split", "category")  # all that are there
# Confirmed in github.com/IMirandaM/BiVLC (results, main_evaluation_BiVLC.py) and RAIVNLab/sugar-crepe
# (gpt-4v-results).
ALIASES: Mapping[str, str] = {
    "correct": "accuracy",
    "text_score": "i2t",
    "image_score": "t2i",
    "group_score": "group",
    "text_score_i0": "i_pos2t",
    "text_score_i1": "i_neg2t",
    "image_score_c0": "t_pos2i",
    "image_score_c1": "t_neg2i",
}
TRUTH: Mapping[str, float] = {
    **dict.fromkeys(("true", "1", "1.0", "yes"), 1.0),
    **dict.fromkeys(("false", "0", "0.0", "no"), 0.0),
    **dict.fromkeys(("", "nan", "none", "null"), np.nan),
}
SCORES = tuple(
    n for n, column in tables.SIMILARITIES.columns.items() if column.null and column.type != tables.TEXT
)


class Scored(NamedTuple):
    """What a file says of its instances."""

    rows: pd.DataFrame  # model, instance_id, image_id, subsets
    outcomes: Outcomes  # of the same rows
    notes: tuple[str, ...]  # what the file lacks
    answers: pd.DataFrame | None = (
        None  # of a model that chose, see ``released_answers``; then the verdicts are these
    )


def read_others(path: Path, metrics: Sequence[str]) -> Scored:
    """Return the instances of a file and what it says of them.

    An image is a name, or the image itself, which its content names. A column of images that are neither (BiVLC's
    release holds memory addresses) does not count, and a note says so: without another one, each instance is an
    image of its own. Without ids, the rows are counted. Without a model, the file's
    name is its name; without subsets, a SugarCrepe subtype at the end of the file's name is the subset.

    Args:
        path: the file.
        metrics: to compute where there are scores.

    Raises:
        DataError: the file is missing or broken, has neither a score nor a verdict, a value is none, or a column of
            images holds verdicts.
    """
    rows, places = read_rows(path, is_known)
    return scored(rows, metrics, where=repr(str(path)), name=path.stem, places=places)


def scored(
    rows: pd.DataFrame, metrics: Sequence[str], *, where: str, name: str, places: Sequence[str]
) -> Scored:
    """Return the instances of others' rows, as ``read_others`` does.

    Args:
        rows: a row per instance; at least one.
        metrics: to compute where there are scores.
        where: what the rows are of, for messages.
        name: what stands for a model's name where no column gives it; a SugarCrepe subtype at its end is the subset.
        places: where each row stands, for messages.

    Raises:
        DataError: as in ``read_others``.
    """
    if is_detections(list(rows.columns)):
        found, natural = detected(rows, places, where)
        of_instances = rows.iloc[natural].reset_index(drop=True)
        described, notes = _described(of_instances, where, name, [places[n] for n in natural])
        return Scored(described, found, notes)
    verdicts = {column: metric for column in rows.columns if (metric := _metric(column)) is not None}
    scores = [column for column in rows.columns if column in SCORES]
    if not verdicts and not scores:
        raise DataError(
            f"{where} has no column of scores or verdicts; it has {list(rows.columns)}.\n"
            f"Looked for scores: {', '.join(SCORES)}.\n"
            f"Looked for verdicts, true or false: {', '.join([*METRICS, *RECALLS, *ALIASES])}."
        )
    described, notes = _described(rows, where, name, places)
    if not scores:
        said = _verdicts(rows, verdicts, where, places)
        answers = answers_of(rows, described, said.hits["accuracy"], places) if is_answers(rows) else None
        return Scored(described, said, notes, answers)
    numbers = pd.DataFrame({column: _numbers(rows[column], column, places) for column in scores})
    check_ranks(numbers, where, places)
    computed = outcomes(tables.frame(tables.SIMILARITIES, numbers), metrics)
    if verdicts:
        check_verdicts(computed, _verdicts(rows, verdicts, where, places), where, places)
    return Scored(described, computed, notes)


def is_known(column: str) -> bool:
    """Return whether a column is looked at; others, such as pictures, are not read."""
    names = (name for others in NAMES.values() for name in others)
    return column in (*names, *SUBSETS, *SCORES, *COLUMNS) or _metric(column) is not None


def _metric(column: str) -> str | None:
    """Return the metric that a column of verdicts is named after."""
    low = column.strip().lower()
    plain = {name.replace("_", ""): name for name in (*METRICS, *RECALLS)}
    return ALIASES.get(low) or plain.get(low.replace("_", ""))


def _described(
    rows: pd.DataFrame, source: str, stem: str, places: Sequence[str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return model, instance_id, image_id and subsets of the rows, and notes on what is not known."""
    columns = {
        name: next((rows[c] for c in NAMES[name] if c in rows.columns), None)
        for name in ("instance_id", "model")
    }
    subsets = _subsets(rows, places)
    part = ""
    named = next((s for s in SUBTYPES if stem.endswith(s)), "")
    notes = []
    if subsets and named and not any(named in of_row for of_row in subsets):
        notes.append(
            f"{source} is called after {named!r}, which no row of it is in: its columns count, not its name."
        )
    if subsets is None:
        part = named
        stem = stem.removesuffix(part).rstrip("-_ ") or stem
        subsets = [_with_type([part]) if part else []] * len(rows)
    ids = range(len(rows)) if columns["instance_id"] is None else _named(columns["instance_id"], places)
    images, unusable = _read_images(rows, source, places)
    if images is not None:
        notes += unusable
    else:
        images = [f"row {n}" for n in range(len(rows))]
        notes.append(
            f"{' '.join([*unusable, source])} names no images: each instance counts as an image of its own, and the "
            f"intervals are too short where images have several."
        )
    models = columns["model"]
    described = {
        "model": [stem] * len(rows) if models is None else _named(models, places),
        "instance_id": [f"{part}/{name}" if part else name for name in ids],
        "image_id": images,
        "subsets": subsets,
    }
    return pd.DataFrame(described), tuple(notes)


def _named(column: pd.Series, places: Sequence[str]) -> list[str]:
    """Return names: texts that are not empty, or whole numbers."""
    for name, where in zip(column, places, strict=True):
        if isinstance(name, bool | np.bool_) or not isinstance(name, str | int | np.integer) or name == "":
            raise DataError(f"{where}: {brief(name)} in column {column.name!r} is no name.")
    return [
        checked_text(str(name), str(column.name), where) for name, where in zip(column, places, strict=True)
    ]


def _read_images(
    rows: pd.DataFrame, source: str, places: Sequence[str]
) -> tuple[list[str] | None, list[str]]:
    """Return the names of the images, None if no column has them, and a note on each column that should and does not.

    Raises:
        DataError: a column holds verdicts, as of the image score, or a name that no table can hold.
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
            texts = [checked_text(str(name), "image", at) for name, at in zip(names, places, strict=True)]
            return texts, notes
        notes.append(
            f"{places[wrong]}: {brief(names[wrong])} in column {column!r} is no name of an image: the column does not "
            f"count. Write names, or encoded images."
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


def _subsets(rows: pd.DataFrame, places: Sequence[str]) -> list[list[str]] | None:
    """Return the subsets of each row, None if no column says; ``add`` and ``obj`` are ``add`` and ``add_obj``."""
    columns = [name for name in SUBSETS if name in rows.columns]
    if not columns:
        return None
    found = []
    for values, where in zip(rows[columns].to_dict("records"), places, strict=True):
        kind, part = (str(values.get(name, "")) for name in ("type", "subtype"))
        check_subtype(kind, part, where)
        if f"{kind}_{part}" in SUBTYPES:
            values["subtype"] = f"{kind}_{part}"
        names = [
            _subset(name, str(column), where) for column, cell in values.items() for name in _names(cell)
        ]
        found.append(_with_type(names))
    return found


def _subset(name: str, column: str, where: str) -> str:
    if name in ("all", MACRO):
        raise DataError(
            f"{where}: a subset in column {column!r} is called {name!r}, which is the name of a mean. Give it another name."
        )
    return checked_text(name, column, where)


def _names(value: Any) -> list[str]:
    """Return the names in a cell: one, several, or a list as text, of JSON or Python; what is empty is none."""
    names = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    if isinstance(value, str) and value.startswith("["):
        names = _list_in(value)
    return [
        str(name) for name in names if not (pd.api.types.is_scalar(name) and (pd.isna(name) or name == ""))
    ]


def _list_in(text: str) -> list[Any]:
    """Return the list that a text is, of JSON, of Python, or a mixture; a text that only looks like one is a name."""
    for parse, written in (
        (json.loads, text),
        (ast.literal_eval, text),
        (json.loads, text.replace("'", '"')),
    ):
        try:
            found = parse(written)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, list):
            return found
    return [text]


def _with_type(names: Sequence[str]) -> list[str]:
    """Return the names, each once; a SugarCrepe subtype brings its type."""
    types = [name.partition("_")[0] for name in names if name in SUBTYPES]
    return list(dict.fromkeys([*types, *names]))


def _verdicts(rows: pd.DataFrame, columns: Mapping[str, str], source: str, places: Sequence[str]) -> Outcomes:
    """Return the verdicts as outcomes, without ties."""
    hits: dict[str, list[float]] = {}
    for column, metric in columns.items():
        if metric in hits:
            both = [name for name, other in columns.items() if other == metric]
            raise DataError(f"{source} has several columns of the verdict {metric!r}: {both}. Leave one.")
        hits[metric] = [
            _truth(value, column, where) for value, where in zip(rows[column], places, strict=True)
        ]
    frame = pd.DataFrame(hits, index=rows.index)
    return Outcomes(frame, frame.isna() & False)


def _truth(value: Any, column: str, where: str) -> float:
    """Return a verdict as 1, 0 or NaN."""
    low = "" if value is None else str(value).strip().lower()
    if low not in TRUTH:
        raise DataError(
            f"{where}: {brief(value)} in column {column!r} is no verdict. "
            f"Write true or false, 1 or 0, yes or no; nothing where it is not scored."
        )
    return TRUTH[low]


def _numbers(column: pd.Series, name: str, places: Sequence[str]) -> list[float]:
    """Return scores as numbers, NaN where empty."""
    low, high = tables.SIMILARITIES.columns[name].range
    whole = tables.SIMILARITIES.columns[name].type == tables.INT
    numbers = []
    for value, where in zip(column, places, strict=True):
        number = number_or_nan(value)
        if number is None or number < low or number > high or (whole and number % 1):
            kind = "number of candidates" if whole else "finite number"
            raise DataError(f"{where}: {brief(value)} in column {name!r} is no {kind}.")
        numbers.append(number)
    return numbers
