"""Check that the metrics of a pinned version follow from its per-instance results."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from caramel.errors import DataError
from caramel.evaluation.results.answers import summarise_answers
from caramel.evaluation.results.summary import summarise_similarities
from caramel.registry import BENCHMARKS
from caramel.release.pin_file import Pin, read_pin
from caramel.release.pinned_tables import read_pinned
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap

FOLDER = "data/evaluate"
KEY = ["model", "benchmark", "subset", "metric"]
FIGURES = ["value", "ci_low", "ci_high", "n", "ties", "unscored"]


class RescoreResult(NamedTuple):
    """Number of compared rows of metrics, and one line for each that differs."""

    rows: int
    differences: list[str]


def rescore_version(version: str, root: Path) -> RescoreResult:
    """Recompute the pin's table ``metrics`` from its similarities and answers and compare it to the last digit.

    The number of resamples and the seed come from the pin's params. Equality shows that the table follows
    from the rows by this caramel's definitions. It does not show that a model produces these rows.

    Args:
        version: name of the pin.
        root: folder with ``pins/``, and with the tables on disk or in DVC's cache.

    Raises:
        DataError: there is no such pin, it has no results, or their rows are not available.
        BackendError: this caramel does not know a benchmark.
    """
    bootstrap = get_scoring_settings(read_pin(version, root))
    similarities, answers, pinned = (
        read_pinned(version, f"{FOLDER}/{name}", root) for name in ("similarities", "answers", "metrics")
    )
    parts = [
        summarise(
            rows,
            {name: BENCHMARKS[name] for name in rows["benchmark"].unique()},
            bootstrap=bootstrap,
        )
        for summarise, rows in ((summarise_similarities, similarities), (summarise_answers, answers))
        if len(rows)
    ]
    metrics = pd.concat(parts, ignore_index=True) if parts else build_frame(METRICS, [])
    return RescoreResult(len(pinned), _list_differences(pinned, metrics))


def get_scoring_settings(pinned: Pin) -> Bootstrap:
    """Return the bootstrap by which a version was scored.

    Raises:
        DataError: the params lack them.
    """
    settings = pinned.params.get("evaluate", {})
    try:
        return Bootstrap(int(settings["n_bootstrap"]), int(settings["seed"]))
    except (KeyError, TypeError, ValueError) as error:
        message = f"The params of pin {pinned.name!r} do not say how it was scored: evaluate.{error}."
        raise DataError(message) from error


def _list_differences(pinned: pd.DataFrame, rescored: pd.DataFrame) -> list[str]:
    """Return one line for each row of metrics that is in one table only or has different values."""
    joined = pinned.merge(rescored, on=KEY, how="outer", suffixes=("", "_again"), indicator=True, sort=True)
    lines = []
    for row in joined.to_dict("records"):
        what = f"{row['metric']} of {row['model']} on {row['benchmark']}, {row['subset']}"
        if row["_merge"] != "both":
            lines.append(f"{what}: {'not pinned' if row['_merge'] == 'right_only' else 'not recomputed'}")
            continue
        for name in FIGURES:
            old, new = row[name], row[f"{name}_again"]
            if old != new and not (pd.isna(old) and pd.isna(new)):
                lines.append(f"{what}: {name} is {old!r} in the pin and {new!r} recomputed")
    return lines
