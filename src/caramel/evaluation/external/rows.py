"""Read per-instance results of other programs from CSV, JSON, JSON Lines or Parquet, one row per instance.

A column is one of these:

- A score, named as in table ``similarities`` (``s_c0_i0`` …). The metrics are computed from the scores.
- The verdict on a metric, true or false. It has the metric's name in upper or lower case (``ITT``, ``T2I`` …), or
  the name used in the releases of BiVLC (``text_score_i0`` …, later ``Ipos_2T`` …), Winoground (``text_score`` …)
  or SugarCrepe (``correct``). An empty verdict means not scored. Verdicts do not show ties.
- The instance, its image, its subsets or the model.
- The benchmark, by its name in caramel. Only the rows of the benchmark that is asked for are read.

Other columns are ignored. If a file has scores and verdicts, the scores count, and a verdict that contradicts them
is an error. A file of BiVLC's detectors holds probabilities instead (``detector_files``).
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
from caramel.interfaces.benchmark import Benchmark
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
BENCHMARK = "benchmark"  # column that names the benchmark of a row
SCORES = tuple(n for n, column in SIMILARITIES.columns.items() if column.null and column.type != TEXT)
# Names of the score columns in files of caramel 0.1 -> current names.
FORMER = {former: name for name in SCORES if (former := SIMILARITIES.columns[name].formerly)}


class InstanceResults(NamedTuple):
    """Instances of a file with their outcomes."""

    rows: pd.DataFrame  # model, instance_id, image_id, subsets
    outcomes: Outcomes  # outcomes of the same rows
    notes: tuple[str, ...]  # what the file lacks
    answers: pd.DataFrame | None = (
        None  # answers to multiple choice, see ``external.answers``; the outcomes then repeat their verdicts
    )


def read_others(path: Path, benchmark: Benchmark) -> InstanceResults:
    """Read the instances of a file with their outcomes.

    - Image: a name, or the image itself, which gets its name from its content. A column of images that holds
      neither (BiVLC's release holds memory addresses) is ignored with a note. Without another image column, each
      instance counts as an image of its own.
    - Instance: without ids, the row number.
    - Model: without a model column, the file's name.
    - Subsets: without such columns, a SugarCrepe subtype at the end of the file's name.

    Args:
        path: the file.
        benchmark: the benchmark whose rows are read; its metrics are computed from scores.

    Raises:
        DataError: the file is missing or broken, is of other benchmarks, has neither a score nor a verdict, holds an
            invalid value, or has verdicts in a column of images.
    """
    rows, locations = read_rows(path, is_known)
    return read_instance_results(rows, benchmark, where=repr(str(path)), name=path.stem, locations=locations)


def read_instance_results(
    rows: pd.DataFrame, benchmark: Benchmark, *, where: str, name: str, locations: Sequence[str]
) -> InstanceResults:
    """Return the instances of external rows, as ``read_others`` does.

    Args:
        rows: one row per instance; at least one, numbered from 0.
        benchmark: as in ``read_others``.
        where: source of the rows, for messages.
        name: name of the model if no column gives it; a SugarCrepe subtype at its end is the subset.
        locations: location of each row, for messages.

    Raises:
        DataError: as in ``read_others``.
    """
    rows = rows.rename(columns={old: new for old, new in FORMER.items() if new not in rows.columns})
    if BENCHMARK in rows.columns:
        rows = select_benchmark(rows, benchmark.name, where)
        locations = [locations[number] for number in rows.index]
        rows = rows.reset_index(drop=True)
    if is_detections(list(rows.columns)):
        detector_outcomes, natural = compute_detector_outcomes(rows, locations, where)
        of_instances = rows.iloc[natural].reset_index(drop=True)
        described, notes = describe_rows(of_instances, where, name, [locations[n] for n in natural])
        return InstanceResults(described, detector_outcomes, notes)
    verdicts = {column: metric for column in rows.columns if (metric := _find_metric(column)) is not None}
    scores = [column for column in rows.columns if column in SCORES]
    if not verdicts and not scores:
        raise DataError(
            f"{where} has no column of scores or verdicts; its columns are {list(rows.columns)}.\n"
            f"Known columns of scores: {', '.join(SCORES)}.\n"
            f"Known columns of verdicts, true or false: {', '.join([*METRICS, *RECALLS, *ALIASES])}."
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
    computed = compute_outcomes(build_frame(SIMILARITIES, numbers), benchmark.metrics)
    if verdicts:
        check_verdicts(computed, _read_verdicts(rows, verdicts, where, locations), where, locations)
    return InstanceResults(described, computed, notes)


def is_known(column: str) -> bool:
    """Return whether a column is used; other columns are not read."""
    names = (name for others in NAMES.values() for name in others)
    known = (BENCHMARK, *names, *SUBSETS, *SCORES, *FORMER, *COLUMNS)
    return column in known or _find_metric(column) is not None


def select_benchmark(rows: pd.DataFrame, name: str, where: str) -> pd.DataFrame:
    """Return the rows of a benchmark, with their index.

    Raises:
        DataError: there are none.
    """
    selected = rows[rows[BENCHMARK] == name]
    if selected.empty:
        names = list(dict.fromkeys(rows[BENCHMARK]))
        raise DataError(f"{where} has no instance of benchmark {name!r}; its benchmarks are {names}.")
    return selected


def _find_metric(column: str) -> str | None:
    """Return the metric that a column of verdicts is named after; None if there is none."""
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
            raise DataError(
                f"{source} has several columns of the verdict {metric!r}: {both}. Keep one of them."
            )
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
            f"{where}: {format_value(value)} in column {column!r} is not a verdict. "
            f"Write true or false, 1 or 0, yes or no. Leave it empty if the instance is not scored."
        )
    return TRUTH[low]


def _read_scores(column: pd.Series, name: str, locations: Sequence[str]) -> list[float]:
    """Return scores as numbers, NaN where empty."""
    low, high = SIMILARITIES.columns[name].range
    whole = SIMILARITIES.columns[name].type == INT
    numbers = []
    for value, where in zip(column, locations, strict=True):
        number = number_or_nan(value)
        if number is None or number < low or number > high or (whole and not np.isnan(number) and number % 1):
            expected = "number of candidates" if whole else "finite number"
            raise DataError(f"{where}: {format_value(value)} in column {name!r} is not a {expected}.")
        numbers.append(number)
    return numbers
