"""Whether the figures of a pinned version come out of what it says of each instance."""

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
    """What came of it: how many rows of figures were compared, and a line for each that is another one."""

    rows: int
    differences: list[str]


def rescore_version(version: str, root: Path) -> RescoreResult:
    """Compute the pin's table ``metrics`` from its similarities and answers, and compare them to the last digit.

    The resamples and their seed are those of its params. Equal figures say that the table is what the rows give by the
    definitions of this caramel; not that a model gives these rows.

    Args:
        version: name of the pin.
        root: folder with ``pins/``, and with the tables on disk or in DVC's cache.

    Raises:
        DataError: there is no such pin, it has no results, or their rows are not at hand.
        BackendError: a benchmark is not known to this caramel.
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
        DataError: its params do not say so.
    """
    settings = pinned.params.get("evaluate", {})
    try:
        return Bootstrap(int(settings["n_bootstrap"]), int(settings["seed"]))
    except (KeyError, TypeError, ValueError) as error:
        message = f"The params of pin {pinned.name!r} do not say how it was scored: evaluate.{error}."
        raise DataError(message) from error


def _list_differences(pinned: pd.DataFrame, rescored: pd.DataFrame) -> list[str]:
    """Return a line for each row of figures that is in one table alone, or not the same in both."""
    joined = pinned.merge(rescored, on=KEY, how="outer", suffixes=("", "_again"), indicator=True, sort=True)
    lines = []
    for row in joined.to_dict("records"):
        what = f"{row['metric']} of {row['model']} on {row['benchmark']}, {row['subset']}"
        if row["_merge"] != "both":
            lines.append(f"{what}: {'not pinned' if row['_merge'] == 'right_only' else 'does not come out'}")
            continue
        for name in FIGURES:
            old, new = row[name], row[f"{name}_again"]
            if old != new and not (pd.isna(old) and pd.isna(new)):
                lines.append(f"{what}: {name} {old!r} is pinned, {new!r} comes out")
    return lines
