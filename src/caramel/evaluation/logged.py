"""An evaluation as an MLflow run: its metrics by subset, and their figure."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Sequence

import pandas as pd

from caramel.running import tracking

_NO_SIGN = re.compile(r"[^\w./ -]")  # of a name in MLflow
_LONGEST = 250  # signs of one


def log_run(metrics: pd.DataFrame, planned: tracking.Planned) -> None:
    """Log the metrics, by subset, and their figure to a run."""
    import mlflow

    from caramel.evaluation.results.bars import subset_bars

    with tracking.opened(planned):
        scored = metrics.dropna(subset=["value"])
        names = logged_names(scored["metric"].tolist(), scored["subset"].tolist())
        mlflow.log_metrics(dict(zip(names, scored["value"].astype(float), strict=True)))
        if len(scored):
            mlflow.log_figure(subset_bars(metrics), "subsets.png")


def logged_names(metrics: Sequence[str], subsets: Sequence[str]) -> list[str]:
    """Return the name of each metric of a subset in MLflow, ``METRIC/SUBSET``, all of them different.

    MLflow allows few signs in a name, 250 of them, and no path that leads elsewhere. Subsets are named by the data:
    one whose name will not do goes by a hash of it.
    """
    found: dict[str, None] = {}
    for metric, subset in zip(metrics, subsets, strict=True):
        name = _NO_SIGN.sub(" at ", f"{metric}/{subset}")
        if len(name) > _LONGEST or posixpath.normpath(name) != name or name in found:
            digest = hashlib.sha256(subset.encode()).hexdigest()[:16]
            name = _NO_SIGN.sub(" at ", f"{metric}/{digest}")
        found[name] = None
    return [*found]
