"""Run the trials of the stage ``finetune`` with Ray Tune, and an MLflow run for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caramel.config.search_space import Point
from caramel.interfaces.settings import Execution
from caramel.io.image_store import list_shards
from caramel.runtime.mlflow import tracking
from caramel.runtime.ray.asha import Halving
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.runtime.ray.sharded_map import compute_fingerprint, compute_result_names
from caramel.runtime.ray.trials import TrialResult, tune_grid
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.training.data.row_units import RowCounts
from caramel.training.recipes.finetune_trial import finetune_trial
from caramel.training.variants import VariantConfig, list_variant_params, resolve_variant


@dataclass(frozen=True)
class TrainingInputs:
    """Base model and data of the training.

    Attributes:
        base: checkpoint folder to start from.
        rows: path of the ``training`` table, with rows for training (train) and validation (val).
        images: path of the images table.
        tracked: DVC paths to record as the runs' inputs.
    """

    base: str
    rows: str
    images: str
    tracked: tuple[str, ...]


@dataclass(frozen=True)
class TrialRunner:
    """Runs trials; it holds everything that they share, and each trial has its own point.

    Attributes:
        inputs: base model and data of the training.
        common: settings of all variants by their keys in the params, as in ``resolve_variant``.
        counts: numbers of train pairs and negatives.
        nproc: processes that train one variant together, > 0.
        num_workers: as in ``LoopConfig``.
        execution: how trials are executed; ``gpus`` is the number per process.
        root: folder that holds ``mlruns/``.
        parent: id of the MLflow run that the trials' runs belong to.
    """

    inputs: TrainingInputs
    common: Mapping[str, Any]
    counts: RowCounts
    nproc: int
    num_workers: int
    execution: Execution
    root: Path
    parent: str | None = None

    def run(self, points: Sequence[Point], halving: Halving | None = None) -> list[TrialResult]:
        """Return the trials' results; mark the MLflow runs of trials that ended early as killed."""
        planned: dict[str, tracking.PlannedRun] = {}  # by trial name

        def plan_trial(point: dict[str, Any], trial: str) -> dict[str, Any]:
            run = planned[trial] = self._plan_run(point, trial)
            loop = self._resolve_variant(point).training.loop
            ending = (halving.metric, loop.checkpoint_every, loop.steps) if halving else None
            return {"planned": run, "num_workers": self.num_workers, "ending": ending}

        results = tune_grid(
            finetune_trial,
            points,
            settings=self._build_trial_settings(),
            folder=self.execution.folder,
            executor=self.execution.executor,
            title="finetune",
            cpus=self.nproc,
            gpus=self.execution.gpus * self.nproc,
            plan=plan_trial,
            halving=halving,
        )
        for result in results:
            if "stopped" in result.result and result.folder.name in planned:
                tracking.end_planned_run(planned[result.folder.name], "KILLED")
        return results

    def list_names(self, points: Sequence[Point]) -> list[str]:
        """Return the trials' names: hashes of everything that the trials depend on."""
        return compute_result_names(finetune_trial, self._build_trial_settings(), points)

    def count_checkpoints(self, point: Point) -> int:
        """Return the number of steps at which a trial is measured."""
        loop = self._resolve_variant(point).training.loop
        return math.ceil(loop.steps / loop.checkpoint_every)

    def _build_trial_settings(self) -> dict[str, Any]:
        """Return the arguments of ``finetune_trial`` that are part of a trial's name."""
        images = self.inputs.images
        return {
            "base": LocalFile(self.inputs.base),
            "rows": LocalFile(self.inputs.rows),
            "images": LocalFile(images, around=tuple(list_shards(images, read_table(IMAGES, images)))),
            "common": dict(self.common),
            "nproc": self.nproc,
        }

    def _plan_run(self, point: Point, trial: str) -> tracking.PlannedRun:
        name, config = f"{point['variant']}-{point['seed']}", self._resolve_variant(point)
        params = {
            "variant": point["variant"],
            "train_rows": self.counts.count(config.method, config.rows),
            "nproc": self.nproc,
            **list_variant_params(config),
        }
        tags = {"stage": "finetune", "variant": point["variant"], "seed": str(point["seed"])}
        return tracking.plan_run(
            f"finetune {name}",
            key=compute_fingerprint(__name__, name, trial),
            params=params,
            data=self.inputs.tracked,
            tags={**tags, **({tracking.PARENT: self.parent} if self.parent else {})},
            root=self.root,
        )

    def _resolve_variant(self, point: Point) -> VariantConfig:
        return resolve_variant(point, self.common, counts=self.counts, num_workers=self.num_workers)
