"""Track a training run of a stage: its MLflow run, output folder and learning curve."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.interfaces.trainer import Curve
from caramel.io.files import create_empty_folder
from caramel.runtime.mlflow import tracking
from caramel.training.loop.loop import best_step

CURVES = "curves.csv"  # columns model, step, metric, value, kept


def log_curve(points: Sequence[tuple[int, str, float]]) -> None:
    """Log new points (step, metric, value) of a curve to the open MLflow run, in one request."""
    import mlflow
    from mlflow.entities import Metric

    run = mlflow.active_run()
    assert run is not None
    now = int(time.time() * 1000)
    metrics = [Metric(name, value, now, step) for step, name, value in points]
    mlflow.MlflowClient().log_batch(run.info.run_id, metrics=metrics)


def plot_curve(curve: Curve, title: str) -> Any:
    """Return a matplotlib figure of a learning curve, one panel per metric."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for _, name, _ in curve))
    figure = Figure(figsize=(3.2 * len(names), 2.8), layout="constrained")
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        points = [(step, value) for step, metric, value in curve if metric == name]
        axis.plot(*zip(*points, strict=True), marker="o", markersize=3)
        axis.set(title=name, xlabel="step")
    figure.suptitle(title)
    return figure


def build_curve_table(curve: Curve, model: str, select: str = "") -> pd.DataFrame:
    """Return a curve as rows (model, step, metric, value, kept).

    ``kept`` is true at the step whose weights were kept (``best_step`` with ``select``).
    """
    selected_step = best_step(curve, select) if curve else None
    rows = [(model, step, metric, value, step == selected_step) for step, metric, value in curve]
    return pd.DataFrame(rows, columns=["model", "step", "metric", "value", "kept"])


@dataclass(frozen=True)
class TrainingRun:
    """Handle of the open run: its folder and its logging."""

    name: str
    folder: Path

    def log_points(self, points: Curve) -> None:
        """Log new points of the curve."""
        log_curve(points)

    def write_results(self, curve: Curve) -> None:
        """Write ``curves.csv`` and log the curve's figure and the model's config."""
        import mlflow

        build_curve_table(curve, self.name).to_csv(self.folder / CURVES, index=False)
        if curve:
            mlflow.log_figure(plot_curve(curve, self.name), "learning_curve.png")
        for path in sorted(self.folder.rglob("*.json")):
            if path.stat().st_size < 100_000:  # configs and cards, not vocabularies
                mlflow.log_artifact(str(path), str(Path("config") / path.parent.relative_to(self.folder)))


@contextmanager
def open_training_run(
    name: str, key: str, params: Mapping[str, Any], data: Sequence[str], folder: Path
) -> Iterator[TrainingRun]:
    """Open the MLflow run of a training stage and an empty output folder.

    Args:
        name: name of the run, and of the model in its curve.
        key: hash of everything that determines the run.
        params: logged parameters.
        data: DVC paths that the run reads.
        folder: output folder; files of an earlier run are removed.
    """
    create_empty_folder(folder)
    with tracking.run(name, key=key, params=params, data=data, tags={"stage": name}):
        yield TrainingRun(name, folder)
