"""Evaluations as MLflow runs: metrics by subset and their figure; and what all models gained and lost, in one run."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Sequence

import pandas as pd

from caramel.interfaces.benchmark import Exclusion
from caramel.runtime.mlflow import tracking

_INVALID_CHARACTER = re.compile(r"[^\w./ -]")  # of a name in MLflow
_MAX_LENGTH = 250  # signs of one


HEADLINE = ("without_add", "all")  # subsets; the first that a metric has


def log_run(
    metrics: pd.DataFrame, planned: tracking.PlannedRun, *, left_out: Exclusion | None = None
) -> None:
    """Log the metrics, by subset, and their figure to a run; and how many images and instances are left out, if any.

    Each metric's value on its headline subset is also logged by the metric's bare name, which MLflow's pages show in a section
    of their own, without a slash in their names, and offer as columns beside the hundred others.
    """
    import mlflow

    from caramel.evaluation.results.plots import plot_subset_bars

    with tracking.open_run(planned):
        scored = metrics.dropna(subset=["value"])
        names = build_metric_names(scored["metric"].tolist(), scored["subset"].tolist())
        mlflow.log_metrics(
            dict(zip(names, scored["value"].astype(float), strict=True)) | select_headline_metrics(scored)
        )
        if left_out is not None:
            mlflow.log_metrics(
                {"missing/images": left_out.missing_images, "missing/instances": len(left_out.rows)}
            )
        if len(scored):
            mlflow.log_figure(plot_subset_bars(metrics), "subsets.png")


def select_headline_metrics(scored: pd.DataFrame) -> dict[str, float]:
    """Return each metric's value on the first of ``HEADLINE`` that it has, by the metric's name in MLflow."""
    rows = pd.concat([scored[scored["subset"] == subset] for subset in reversed(HEADLINE)])
    return {
        _INVALID_CHARACTER.sub(" at ", m): float(v)
        for m, v in zip(rows["metric"], rows["value"], strict=True)
    }


def log_retained(metrics: pd.DataFrame, retained: pd.DataFrame) -> None:
    """Log what the base and its variants kept, table and figure, as one run; see ``results.retained``.

    Args:
        metrics: table ``metrics``.
        retained: of ``results.retained.retained``.
    """
    import mlflow

    from caramel.evaluation.results.forgetting import compute_tradeoff, plot_tradeoff

    ours = metrics[(metrics["benchmark"] == "instances") & metrics["model"].isin(retained["model"])]
    words, points = compute_tradeoff(ours, retained)
    key = hashlib.sha256(pd.concat([retained, points]).to_csv(index=False).encode()).hexdigest()
    data = ["data/assemble", "data/scenes", "data/base", "data/finetune"]
    with tracking.run("retained", key=key, params={"gain": words}, data=data, tags={"stage": "evaluate"}):
        names = build_metric_names(retained["measure"].tolist(), retained["model"].tolist())
        mlflow.log_metrics(dict(zip(names, retained["value"].astype(float), strict=True)))
        mlflow.log_text(retained.to_csv(index=False), "retained.csv")
        if len(points):
            mlflow.log_figure(plot_tradeoff(words, points), "gain_against_loss.png")


def log_detectors(metrics: pd.DataFrame) -> None:
    """Log what detectors of what is synthetic reached, as a run for each form of the benchmark; see ``detectors.detect``."""
    for form, rows in metrics.groupby("benchmark", sort=False):
        key = hashlib.sha256(rows.to_csv(index=False).encode()).hexdigest()
        tags = {"stage": "evaluate", "benchmark": str(form)}
        data = ["data/assemble", "data/scenes", "data/base"]
        log_run(rows, tracking.plan_run(f"detectors on {form}", key=key, params=tags, data=data, tags=tags))


def build_metric_names(metrics: Sequence[str], subsets: Sequence[str]) -> list[str]:
    """Return the name of each metric of a subset in MLflow, ``METRIC/SUBSET``, all of them different.

    MLflow allows few signs in a name, 250 of them, and no path that leads elsewhere. Subsets are named by the data:
    one whose name will not do goes by a hash of it.
    """
    names: dict[str, None] = {}
    for metric, subset in zip(metrics, subsets, strict=True):
        name = _INVALID_CHARACTER.sub(" at ", f"{metric}/{subset}")
        if len(name) > _MAX_LENGTH or posixpath.normpath(name) != name or name in names:
            digest = hashlib.sha256(subset.encode()).hexdigest()[:16]
            name = _INVALID_CHARACTER.sub(" at ", f"{metric}/{digest}")
        names[name] = None
    return [*names]
