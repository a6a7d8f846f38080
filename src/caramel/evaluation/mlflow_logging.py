"""Log evaluations as MLflow runs: metrics by subset with a figure, and one run on retention of all models."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Sequence

import pandas as pd

from caramel.interfaces.benchmark import Exclusion
from caramel.runtime.mlflow import tracking

_INVALID_CHARACTER = re.compile(r"[^\w./ -]")  # in a name in MLflow
_MAX_LENGTH = 250  # characters in a name in MLflow


HEADLINE = ("without_add", "all")  # subsets; the first one that a metric has is its headline


def log_run(
    metrics: pd.DataFrame, planned: tracking.PlannedRun, *, left_out: Exclusion | None = None
) -> None:
    """Log metrics by subset, their figure, and the numbers of missing images and left-out instances, if any.

    Each metric's value on its headline subset is also logged under the metric's bare name. MLflow's pages show
    names without a slash in a separate section, and offer them as columns beside the hundred others.
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
    """Return each metric's value on the first subset of ``HEADLINE`` that it has, by the metric's name in MLflow."""
    rows = pd.concat([scored[scored["subset"] == subset] for subset in reversed(HEADLINE)])
    return {
        _INVALID_CHARACTER.sub(" at ", m): float(v)
        for m, v in zip(rows["metric"], rows["value"], strict=True)
    }


def log_retained(metrics: pd.DataFrame, retained: pd.DataFrame) -> None:
    """Log what the base and its variants retain, as table and figure, in one run; see ``results.forgetting``.

    Args:
        metrics: table ``metrics``.
        retained: result of ``results.forgetting.compute_retention``.
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
    """Log the metrics of synthetic-item detectors, one run per form of the benchmark; see ``synthetic_probe``."""
    for form, rows in metrics.groupby("benchmark", sort=False):
        key = hashlib.sha256(rows.to_csv(index=False).encode()).hexdigest()
        tags = {"stage": "evaluate", "benchmark": str(form)}
        data = ["data/assemble", "data/scenes", "data/base"]
        log_run(rows, tracking.plan_run(f"detectors on {form}", key=key, params=tags, data=data, tags=tags))


def build_metric_names(metrics: Sequence[str], subsets: Sequence[str]) -> list[str]:
    """Return distinct MLflow names ``METRIC/SUBSET`` for metrics of subsets.

    MLflow restricts the characters of a name, allows 250 of them, and refuses a path that leads elsewhere. The data
    names the subsets. If a subset's name is not valid, a hash replaces it.
    """
    names: dict[str, None] = {}
    for metric, subset in zip(metrics, subsets, strict=True):
        name = _INVALID_CHARACTER.sub(" at ", f"{metric}/{subset}")
        if len(name) > _MAX_LENGTH or posixpath.normpath(name) != name or name in names:
            digest = hashlib.sha256(subset.encode()).hexdigest()[:16]
            name = _INVALID_CHARACTER.sub(" at ", f"{metric}/{digest}")
        names[name] = None
    return [*names]
