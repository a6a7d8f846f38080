"""Trials of the stage ``finetune``: what Tune runs, with an MLflow run for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caramel.config.search_space import Point
from caramel.runtime.mlflow import tracking
from caramel.runtime.ray.asha import Halving
from caramel.runtime.ray.sharded_map import Executor, compute_fingerprint, compute_result_names
from caramel.runtime.ray.trials import TrialResult, tune_grid
from caramel.training.recipes.finetune_trial import finetune_trial
from caramel.training.variants import resolve_steps, set_up


@dataclass(frozen=True)
class TrialRunner:
    """All that trials of this stage are made of but their points."""

    settings: Mapping[str, Any]
    common: Mapping[str, Any]  # settings of all variants
    rows: int
    num_workers: int
    executor: Executor
    folder: Path
    gpus: float
    data: Sequence[str]
    root: Path
    parent: str | None = None  # id of the run that theirs belong to

    def run(self, points: Sequence[Point], halving: Halving | None = None) -> list[TrialResult]:
        """Return what the trials gave; the runs of those that were ended early end, too."""
        planned: dict[str, tracking.PlannedRun] = {}  # by the name of the trial

        def plan_trial(point: dict[str, Any], trial: str) -> dict[str, Any]:
            run = planned[trial] = self._plan_run(point, trial)
            steps = self._resolve_steps(point)
            ending = (halving.metric, steps["checkpoint_every"], steps["steps"]) if halving else None
            return {"planned": run, "workers": self.num_workers, "ending": ending}

        nproc = self.settings["nproc"]
        results = tune_grid(
            finetune_trial,
            points,
            settings=self.settings,
            folder=self.folder,
            executor=self.executor,
            title="finetune",
            cpus=nproc,
            gpus=self.gpus * nproc,
            plan=plan_trial,
            halving=halving,
        )
        for result in results:
            if "stopped" in result.result and result.folder.name in planned:
                tracking.mark_killed(planned[result.folder.name])
        return results

    def list_names(self, points: Sequence[Point]) -> list[str]:
        """Return the trials' names, the hashes of all that they depend on."""
        return compute_result_names(finetune_trial, self.settings, points)

    def count_checkpoints(self, point: Point) -> int:
        """Return at how many steps a trial is measured."""
        resolved = self._resolve_steps(point)
        steps, every = int(resolved["steps"]), int(resolved["checkpoint_every"])
        return math.ceil(steps / every)

    def _plan_run(self, point: Point, trial: str) -> tracking.PlannedRun:
        name = f"{point['variant']}-{point['seed']}"
        settings = {**self.common, **point.get("overrides", {})}
        method = set_up(point["variant"], settings["negatives"], settings.pop("weights", {}))
        terms = {f"weight_{name}": weight for name, weight in method.weights.items()}
        params = {
            "variant": point["variant"],
            "seed": point["seed"],
            "train_rows": self.rows,
            "nproc": self.settings["nproc"],
            **resolve_steps(method, settings, self.rows),
            **terms,
            "negatives": method.negatives,
        }
        tags = {"stage": "finetune", "variant": point["variant"], "seed": str(point["seed"])}
        return tracking.plan_run(
            f"finetune {name}",
            key=compute_fingerprint(__name__, name, trial),
            params=params,
            data=self.data,
            tags={**tags, **({tracking.PARENT: self.parent} if self.parent else {})},
            root=self.root,
        )

    def _resolve_steps(self, point: Point) -> dict[str, Any]:
        settings = {**self.common, **point.get("overrides", {})}
        return resolve_steps(set_up(point["variant"], settings["negatives"], {}), settings, self.rows)
