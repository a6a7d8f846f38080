"""The evaluation grid: every model on the benchmark, one trial and one MLflow run each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel import parallel, tables, tracking
from caramel.errors import BackendError, DataError
from caramel.evaluation.benchmarks import instances as instances_benchmark
from caramel.evaluation.figures import subtype_bars
from caramel.evaluation.summary import BASE, compare_variants, summarise, summarise_variants
from caramel.models.checkpoints import load_encoder
from caramel.models.clip import resolve_device

INSTANCES, IMAGES = "data/assemble/instances.parquet", "data/assemble/images.parquet"
BENCHMARKS = {"instances": instances_benchmark.similarities}  # name -> similarities of one model


class Evaluation(NamedTuple):
    """What the stage writes."""

    similarities: pd.DataFrame  # table ``similarities``
    metrics: pd.DataFrame  # table ``metrics``
    variants: pd.DataFrame  # ``summary.VARIANT_COLUMNS``
    differences: pd.DataFrame  # ``summary.DIFFERENCE_COLUMNS``


def evaluate_models(
    tuned: Sequence[tuple[str, int]],
    *,
    split: str,
    batch: int,
    bootstrap: int,
    seed: int,
    device: str,
    precision: str,
    executor: parallel.Executor,
    folder: str | Path,
) -> Evaluation:
    """Score the base and the fine-tuned models as a Ray Tune grid, and compare them.

    Args:
        tuned: (variant, seed) of each fine-tuned model.
        split: part of the instances that is scored.
        batch: items per forward pass.
        bootstrap: resamples of the intervals.
        seed: of the bootstrap.
        device: auto, cpu or cuda.
        precision: auto, fp32 or bf16.
        executor: ray or inline.
        folder: of the trials' results.

    Raises:
        DataError: there is nothing to score, or an image is missing.
        BackendError: a checkpoint is missing or broken.
        ResourceError: a trial failed on Ray; the message holds its error.
    """
    instances = read_split(Path(INSTANCES), split)
    results = parallel.tune_grid(
        evaluate_model,
        points(tuned),
        settings={
            "folder": str(Path.cwd()),
            "root": str(tracking.store_root()),
            "split": split,
            "batch": batch,
            "bootstrap": bootstrap,
            "seed": seed,
            "device": device,
            "precision": precision,
        },
        inputs=[parallel.file_hash(INSTANCES), parallel.file_hash(IMAGES)],
        folder=folder,
        executor=executor,
        title="evaluate",
        gpus=1.0 if resolve_device(device) == "cuda" else 0.0,
    )
    similarities = pd.concat(
        [tables.read(tables.SIMILARITIES, r["similarities"]) for r in results], ignore_index=True
    )
    metrics = summarise(similarities, instances, bootstrap=bootstrap, seed=seed, benchmark="instances")
    differences = compare_variants(similarities, instances, bootstrap=bootstrap, seed=seed)
    return Evaluation(similarities, metrics, summarise_variants(metrics), differences)


def points(tuned: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return the grid: the base, then each fine-tuned model, times each benchmark.

    Raises:
        BackendError: a checkpoint's folder is missing.
    """
    models: list[tuple[str, str, int | None, str]] = [(BASE, BASE, None, "data/base")]
    models += [(f"{v}-{s}", v, s, f"data/finetune/{v}-{s}") for v, s in tuned]
    for name, _, _, checkpoint in models:
        if not Path(checkpoint).is_dir():
            raise BackendError(f"Model {name!r} has no checkpoint at {checkpoint!r}. Run `dvc repro`.")
    return [
        {
            "model": name,
            "variant": variant,
            "seed": seed,
            "checkpoint": checkpoint,
            "content": parallel.file_hash(checkpoint),
            "benchmark": benchmark,
        }
        for name, variant, seed, checkpoint in models
        for benchmark in BENCHMARKS
    ]


def evaluate_model(
    point: dict[str, Any],
    scratch: str,
    *,
    folder: str,
    root: str,
    split: str,
    batch: int,
    bootstrap: int,
    seed: int,
    device: str,
    precision: str,
) -> dict[str, Any]:
    """Score one model, write its similarities into ``scratch`` and log one MLflow run.

    Args:
        point: ``model`` (name), ``variant``, ``seed`` (of the training, or None), ``checkpoint``
            (folder, relative to ``folder``), ``content`` (its hash) and ``benchmark``.
        scratch: folder of the trial.
        folder: the workspace that holds ``data/``.
        root: the project's root, for tracking.
        split: part of the instances that is scored.
        batch: items per forward pass.
        bootstrap: resamples of the logged intervals.
        seed: of the bootstrap.
        device: auto, cpu or cuda.
        precision: auto, fp32 or bf16.

    Returns:
        ``similarities``, the path of the table, and every metric over all instances.
    """
    instances = read_split(Path(folder, INSTANCES), split)
    images = tables.read(tables.IMAGES, Path(folder, IMAGES))
    encoder = load_encoder(
        str(Path(folder, point["checkpoint"])),
        device=device,
        precision=precision,
        name=point["model"],
    )
    rows = BENCHMARKS[point["benchmark"]](instances, images, encoder, batch=batch)
    path = tables.write(tables.SIMILARITIES, rows, Path(scratch, "similarities.parquet"))
    metrics = summarise(rows, instances, bootstrap=bootstrap, seed=seed, benchmark=point["benchmark"])
    params = {
        "variant": point["variant"],
        "seed": point["seed"],
        "split": split,
        "batch": batch,
        "precision": precision,
        "content": point["content"],
    }
    _log(point, metrics, params, key=Path(scratch).name, root=root, workspace=folder)
    return {"similarities": str(path), **overall(metrics)}


def read_split(path: Path, split: str) -> pd.DataFrame:
    """Return the instances of one split.

    Raises:
        DataError: there are none.
    """
    instances = tables.read(tables.INSTANCES, path)
    chosen = instances[instances["split"] == split].reset_index(drop=True)
    if chosen.empty:
        raise DataError(
            f"No instance of split {split!r} in {path} ({len(instances)} of other splits): there is "
            f"nothing to score. Set evaluate.split, or draw more negatives (synthesize.per_subtype)."
        )
    return chosen


def overall(metrics: pd.DataFrame) -> dict[str, float]:
    """Return the metrics over all instances of one model, to six decimals; unscored ones left out."""
    rows = metrics[metrics["subset"] == "all"]
    values = zip(rows["metric"], rows["value"], strict=True)
    return {str(name): round(float(value), 6) for name, value in values if not math.isnan(value)}


def _log(
    point: dict[str, Any],
    metrics: pd.DataFrame,
    params: dict[str, Any],
    *,
    key: str,
    root: str,
    workspace: str,
) -> None:
    """Log the metrics, by subset, and their figure as one MLflow run."""
    import mlflow

    tags = {"stage": "evaluate", "variant": point["variant"], "benchmark": point["benchmark"]}
    if point["seed"] is not None:
        tags["seed"] = str(point["seed"])
    with tracking.run(
        f"evaluate {point['model']}",
        key=key,
        params=params,
        data=[INSTANCES, IMAGES, point["checkpoint"]],
        tags=tags,
        root=root,
        workspace=workspace,
    ):
        scored = metrics.dropna(subset=["value"])
        names = scored["metric"] + "/" + scored["subset"]
        mlflow.log_metrics(dict(zip(names, scored["value"].astype(float), strict=True)))
        mlflow.log_figure(subtype_bars(metrics), "subtypes.png")
