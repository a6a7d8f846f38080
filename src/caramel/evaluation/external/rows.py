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

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from caramel.benchmarks.metrics import METRICS, RECALLS, Outcomes, compute_outcomes
from caramel.errors import DataError
from caramel.evaluation.external.answers import build_answers, is_answers
from caramel.evaluation.external.detector_files import COLUMNS, compute_detector_outcomes, is_detections
from caramel.evaluation.results.contradictions import check_ranks, check_verdicts
from caramel.evaluation.results.result_rows import number_or_nan, read_rows
from caramel.evaluation.results.row_annotations import NAMES, SUBSETS, describe_rows
from caramel.io.validators import format_value
from caramel.schemas.contracts import INT, TEXT
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame

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
SCORES = tuple(n for n, column in SIMILARITIES.columns.items() if column.null and column.type != TEXT)
# Their names in files of caramel 0.1.
FORMER = {former: name for name in SCORES if (former := SIMILARITIES.columns[name].formerly)}


class InstanceResults(NamedTuple):
    """What a file says of its instances."""

    rows: pd.DataFrame  # model, instance_id, image_id, subsets
    outcomes: Outcomes  # of the same rows
    notes: tuple[str, ...]  # what the file lacks
    answers: pd.DataFrame | None = (
        None  # of a model that chose, see ``released_answers``; then the verdicts are these
    )


def read_others(path: Path, metrics: Sequence[str]) -> InstanceResults:
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
    rows, locations = read_rows(path, is_known)
    return read_instance_results(rows, metrics, where=repr(str(path)), name=path.stem, locations=locations)


def read_instance_results(
    rows: pd.DataFrame, metrics: Sequence[str], *, where: str, name: str, locations: Sequence[str]
) -> InstanceResults:
    """Return the instances of others' rows, as ``read_others`` does.

    Args:
        rows: a row per instance; at least one.
        metrics: to compute where there are scores.
        where: what the rows are of, for messages.
        name: what stands for a model's name where no column gives it; a SugarCrepe subtype at its end is the subset.
        locations: where each row stands, for messages.

    Raises:
        DataError: as in ``read_others``.
    """
    rows = rows.rename(columns={old: new for old, new in FORMER.items() if new not in rows.columns})
    if is_detections(list(rows.columns)):
        detector_outcomes, natural = compute_detector_outcomes(rows, locations, where)
        of_instances = rows.iloc[natural].reset_index(drop=True)
        described, notes = describe_rows(of_instances, where, name, [locations[n] for n in natural])
        return InstanceResults(described, detector_outcomes, notes)
    verdicts = {column: metric for column in rows.columns if (metric := _find_metric(column)) is not None}
    scores = [column for column in rows.columns if column in SCORES]
    if not verdicts and not scores:
        raise DataError(
            f"{where} has no column of scores or verdicts; it has {list(rows.columns)}.\n"
            f"Looked for scores: {', '.join(SCORES)}.\n"
            f"Looked for verdicts, true or false: {', '.join([*METRICS, *RECALLS, *ALIASES])}."
        )
    described, notes = describe_rows(rows, where, name, locations)
    if not scores:
        verdict_outcomes = _read_verdicts(rows, verdicts, where, locations)
        answers = (
            build_answers(rows, described, verdict_outcomes.hits["accuracy"], locations)
            if is_answers(rows)
            else None
        )
        return InstanceResults(described, verdict_outcomes, notes, answers)
    numbers = pd.DataFrame({column: _read_scores(rows[column], column, locations) for column in scores})
    check_ranks(numbers, where, locations)
    computed = compute_outcomes(build_frame(SIMILARITIES, numbers), metrics)
    if verdicts:
        check_verdicts(computed, _read_verdicts(rows, verdicts, where, locations), where, locations)
    return InstanceResults(described, computed, notes)


def is_known(column: str) -> bool:
    """Return whether a column is looked at; others, such as pictures, are not read."""
    names = (name for others in NAMES.values() for name in others)
    return column in (*names, *SUBSETS, *SCORES, *FORMER, *COLUMNS) or _find_metric(column) is not None


def _find_metric(column: str) -> str | None:
    """Return the metric that a column of verdicts is named after."""
    low = column.strip().lower()
    plain = {name.replace("_", ""): name for name in (*METRICS, *RECALLS)}
    return ALIASES.get(low) or plain.get(low.replace("_", ""))


def _read_verdicts(
    rows: pd.DataFrame, columns: Mapping[str, str], source: str, locations: Sequence[str]
) -> Outcomes:
    """Return the verdicts as outcomes, without ties."""
    hits: dict[str, list[float]] = {}
    for column, metric in columns.items():
        if metric in hits:
            both = [name for name, other in columns.items() if other == metric]
            raise DataError(f"{source} has several columns of the verdict {metric!r}: {both}. Leave one.")
        hits[metric] = [
            _parse_verdict(value, column, where) for value, where in zip(rows[column], locations, strict=True)
        ]
    frame = pd.DataFrame(hits, index=rows.index)
    return Outcomes(frame, frame.isna() & False)


def _parse_verdict(value: Any, column: str, where: str) -> float:
    """Return a verdict as 1, 0 or NaN."""
    low = "" if value is None else str(value).strip().lower()
    if low not in TRUTH:
        raise DataError(
            f"{where}: {format_value(value)} in column {column!r} is no verdict. "
            f"Write true or false, 1 or 0, yes or no; nothing where it is not scored."
        )
    return TRUTH[low]


def _read_scores(column: pd.Series, name: str, locations: Sequence[str]) -> list[float]:
    """Return scores as numbers, NaN where empty."""
    low, high = SIMILARITIES.columns[name].range
    whole = SIMILARITIES.columns[name].type == INT
    numbers = []
    for value, where in zip(column, locations, strict=True):
        number = number_or_nan(value)
        if number is None or number < low or number > high or (whole and number % 1):
            expected = "number of candidates" if whole else "finite number"
            raise DataError(f"{where}: {format_value(value)} in column {name!r} is no {expected}.")
        numbers.append(number)
    return numbers
