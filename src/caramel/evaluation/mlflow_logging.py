"""Log evaluations as MLflow runs: headline metrics, a table by subset, and one run on retention of all models."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

import pandas as pd

from caramel.interfaces.benchmark import Exclusion
from caramel.runtime.mlflow import tracking

_INVALID_CHARACTER = re.compile(r"[^\w./ -]")  # in a name in MLflow
CI = ("ci_low", "ci_high")
HEADLINE = ("without_add", "all")  # subsets; the first one that a metric has is its headline
SUBSETS = "subsets.csv"  # artifact: every metric by subset


def log_metrics(metrics: pd.DataFrame, *, left_out: Exclusion | None = None) -> None:
    """Log metrics to the open run: the headline as MLflow's metrics, all subsets as a table and a figure.

    Numbers of missing images and instances are logged too, if any.
    """
    import mlflow

    from caramel.evaluation.results.plots import plot_subset_bars

    scored = metrics.dropna(subset=["value"])
    mlflow.log_metrics(select_headline_metrics(scored))
    mlflow.log_text(metrics.drop(columns=["model", "benchmark"]).to_csv(index=False), SUBSETS)
    if left_out is not None:
        mlflow.log_metrics(
            {"missing_images": left_out.missing_images, "missing_instances": len(left_out.rows)}
        )
    if len(scored):
        mlflow.log_figure(plot_subset_bars(metrics), "subsets.png")


def select_headline_metrics(scored: pd.DataFrame, spread: Sequence[str] = CI) -> dict[str, float]:
    """Return each metric on the first subset of ``HEADLINE`` that it has, by names in MLflow, with its uncertainty.

    MLflow's pages draw a chart per metric, sorted by name, and first those whose names have a slash. So no name has
    one, and the uncertainties come after the metrics.

    Args:
        scored: columns metric, subset, value, and those of ``spread``, whose empty cells are left out.
        spread: columns that are logged as ``uncertainty.METRIC.COLUMN``.
    """
    rows = pd.concat([scored[scored["subset"] == subset] for subset in reversed(HEADLINE)])
    names = [_INVALID_CHARACTER.sub(" at ", metric) for metric in rows["metric"]]
    logged = dict(zip(names, rows["value"].astype(float), strict=True))
    for column in spread:
        values = dict(zip(names, rows[column].astype(float), strict=True))
        logged |= {f"uncertainty.{name}.{column}": value for name, value in values.items() if value == value}
    return logged


def log_variants(runs: Mapping[str, tracking.PlannedRun], variants: pd.DataFrame) -> None:
    """Log mean, standard deviation and interval over the seeds of each variant to the run above those of its seeds.

    Args:
        runs: the run of each variant that has seeds, by variant.
        variants: rows of ``summary.VARIANT_COLUMNS``.
    """
    import mlflow

    for variant, planned in runs.items():
        rows = variants[variants["variant"] == variant].rename(columns={"mean": "value"})
        with tracking.open_run(planned):
            mlflow.log_metrics(select_headline_metrics(rows.dropna(subset=["value"]), ("sd", *CI)))
            mlflow.log_text(rows.to_csv(index=False), SUBSETS)


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
        mlflow.log_text(retained.to_csv(index=False), "retained.csv")
        if len(points):
            mlflow.log_figure(plot_tradeoff(words, points), "gain_against_loss.png")


def log_detectors(metrics: pd.DataFrame) -> None:
    """Log the metrics of synthetic-item detectors, one run per form of the benchmark; see ``synthetic_probe``."""
    for form, rows in metrics.groupby("benchmark", sort=False):
        key = hashlib.sha256(rows.to_csv(index=False).encode()).hexdigest()
        tags = {"stage": "evaluate", "benchmark": str(form)}
        data = ["data/assemble", "data/scenes", "data/base"]
        with tracking.run(f"detectors on {form}", key=key, params=tags, data=data, tags=tags):
            log_metrics(rows)
