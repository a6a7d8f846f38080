"""An evaluation as an MLflow run: its metrics by subset, and their figure."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from caramel.evaluation.located import Source
from caramel.running import tracking

_NO_SIGN = re.compile(r"[^\w./ -]")  # of a name in MLflow
_LONGEST = 250  # signs of one


def log_run(
    point: dict[str, Any],
    source: Source,
    name: str,
    metrics: pd.DataFrame,
    params: dict[str, Any],
    *,
    key: str,
    root: str,
    workspace: str,
) -> None:
    """Log the metrics, by subset, and their figure as one MLflow run."""
    import mlflow

    from caramel.evaluation.results.bars import subset_bars

    title = (
        f"evaluate {name}" if source.benchmark == "instances" else f"evaluate {name} on {source.benchmark}"
    )
    with tracking.run(
        title,
        key=key,
        params=params,
        data=source.dvc,
        tags={"stage": "evaluate", "benchmark": source.benchmark, **point["tags"]},
        root=root,
        workspace=workspace,
    ):
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
