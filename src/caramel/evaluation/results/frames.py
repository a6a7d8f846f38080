"""Compute metrics and comparisons of data frames, as the commands ``metrics`` and ``compare`` do for files."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from caramel.errors import ConfigError, DataError, format_items
from caramel.evaluation.external.rows import read_instance_results, select_benchmark
from caramel.evaluation.external.runs import compute_model_metrics
from caramel.evaluation.results.comparison import compare_models
from caramel.evaluation.results.content_match import note_unknown_contents
from caramel.evaluation.results.summary import summarise_similarities
from caramel.io.frame_checks import FRAME, select_named_columns
from caramel.registry import BENCHMARKS
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import METRICS, SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap


def compute_frame_metrics(frame: pd.DataFrame, name: str | None, *, bootstrap: Bootstrap) -> pd.DataFrame:
    """Return table ``metrics`` of all models in a frame; ``.attrs["notes"]`` lists what the frame lacks.

    Args:
        frame: table ``similarities``, or rows of other programs, see ``external.rows``.
        name: name of the benchmark; None: the benchmarks that table ``similarities`` names.
        bootstrap: settings of the intervals.

    Raises:
        DataError: a column is missing or holds an invalid value, an instance is a duplicate, or there is no row.
        ConfigError: the frame names no benchmark, and ``name`` is None.
        BackendError: there is no benchmark of that name.
    """
    rows = _select_named_columns(frame)
    if set(rows.columns) == set(SIMILARITIES.columns):
        rows = check_similarities(rows)
        if name is not None:
            BENCHMARKS.get_target(name)
            rows = select_benchmark(rows, name, FRAME).reset_index(drop=True)
        metrics = summarise_similarities(
            rows, {n: BENCHMARKS[n] for n in rows["benchmark"].unique()}, bootstrap=bootstrap
        )
        metrics.attrs["notes"] = note_unknown_contents([rows])
        return metrics
    if name is None:
        raise ConfigError(
            f"{FRAME} is not a table of similarities and does not name its benchmark. Give benchmark=NAME; "
            f"`caramel benchmarks` lists the names."
        )
    locations = [f"{FRAME}, row {label!r}" for label in frame.index]
    plain = rows.astype(object)
    of = read_instance_results(
        plain.where(plain.notna(), None),
        BENCHMARKS[name],
        where=FRAME,
        name="model",
        locations=locations,
    )
    parts = compute_model_metrics([of], BENCHMARKS[name], bootstrap=bootstrap)
    metrics = build_frame(METRICS, pd.concat(parts, ignore_index=True))
    metrics.attrs["notes"] = [*of.notes, *note_unknown_contents([of.rows.assign(benchmark=name)])]
    return metrics


def compare_frames(
    a: pd.DataFrame | Sequence[pd.DataFrame],
    b: pd.DataFrame | Sequence[pd.DataFrame],
    *,
    bootstrap: Bootstrap,
) -> pd.DataFrame:
    """Compare model a with model b, each given as table ``similarities`` or one per training seed.

    The result is that of ``comparison.compare_models``.

    Raises:
        DataError: a frame is not such a table, or holds several models; or as in ``comparison.compare_models``.
    """
    sides = [[check_similarities(frame) for frame in _list_frames(side)] for side in (a, b)]
    if not all(sides):
        raise DataError("Nothing to compare: each side needs at least one table of similarities.")
    for frame in (frame for side in sides for frame in side):
        models = list(dict.fromkeys(frame["model"]))
        if len(models) > 1:
            raise DataError(
                f"{FRAME} of each run must hold one model; one holds {len(models)}:\n"
                f"{format_items([repr(m) for m in models])}\n"
                f"Give the rows of one model: frame[frame['model'] == {models[0]!r}]."
            )
    return compare_models(sides[0], sides[1], bootstrap=bootstrap)


def check_similarities(frame: pd.DataFrame) -> pd.DataFrame:
    """Check a frame and return it as table ``similarities``.

    Raises:
        DataError: it has no row.
        ContractError: it violates the table's contract.
    """
    rows = _select_named_columns(frame)
    arrow = check_table(SIMILARITIES, rows, "the data frame")
    checked: pd.DataFrame = arrow.to_pandas()
    return checked


def _list_frames(side: pd.DataFrame | Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    return [side] if isinstance(side, pd.DataFrame) else list(side)


def _select_named_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the named columns of a frame, with rows renumbered."""
    named = select_named_columns(frame)
    if frame.empty:
        raise DataError(f"{FRAME} has no rows.")
    return named.reset_index(drop=True)
