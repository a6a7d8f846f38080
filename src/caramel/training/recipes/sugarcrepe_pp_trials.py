"""Fine-tune models on 40 % of SugarCrepe++ and score them on the other rows: models × seeds, in full and with LoRA.

This is Table 13 of Dumpala et al. 2024, E.3. Each run is stored, so that a killed stage trains only what is left.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.errors import ConfigError, format_items
from caramel.interfaces.benchmark import Comparisons
from caramel.interfaces.training_settings import (
    ContrastiveConfig,
    LoraConfig,
    TrainableScope,
)
from caramel.models.devices import move_to_device
from caramel.models.open_clip.config import Clip
from caramel.models.open_clip.encoder import ClipEncoder
from caramel.models.open_clip.loader import open_target
from caramel.models.specs import parse_spec
from caramel.models.transformers.trainable_flava import load_trainable_flava
from caramel.models.transformers.transformers_dual import TransformersDual
from caramel.runtime.mlflow import tracking
from caramel.runtime.ray.sharded_map import compute_fingerprint
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import read_table, write_table
from caramel.training.recipes.sugarcrepe_pp_finetune import TuningConfig, select_training_rows, train_model
from caramel.training.tracked import log_curve

VARIANTS: dict[str, TrainableScope] = {"full": "all", "lora": "lora"}
FROZEN, CHECKPOINTS = "frozen", "checkpoints"
TESTED = "test60/"  # prefix of the subsets: only the rows that were not trained on
Encoder = ClipEncoder | TransformersDual
Score = Callable[[Encoder], pd.DataFrame]
Measure = Callable[[pd.DataFrame], dict[str, float]]


def finetune_sugarcrepe_pp(
    models: Sequence[str],
    seeds: Sequence[int],
    task: Comparisons,
    keys: Sequence[bytes],
    *,
    config: TuningConfig,
    score: Score,
    measure: Measure,
    folder: Path,
) -> pd.DataFrame:
    """Return table ``similarities`` of the test rows for each model, before and after each training.

    The models are named MODEL/frozen-SEED, MODEL/full-SEED and MODEL/lora-SEED. A seed draws the split, the
    batches and LoRA's start.

    Args:
        models: specs: open_clip models, and FLAVA as ``dual:TARGET``.
        seeds: seeds of each model.
        task: SugarCrepe++.
        keys: content keys of its images.
        config: how models are tuned.
        score: returns the similarities of all rows for a model.
        measure: returns the metrics of similarities by name, for the run in MLflow.
        folder: folder of the runs' results and checkpoints.

    Raises:
        ConfigError: a model belongs to another family.
        BackendError: a model is missing or damaged.
        DataError: the split has fewer rows than a step.
    """
    parts = []
    # What determines a training; processes that load images do not.
    loop = replace(config.training.loop, num_workers=0)
    content = [_hash_task(task, keys), asdict(replace(config, training=replace(config.training, loop=loop)))]
    for spec in models:
        name = parse_spec(spec).name
        encoder = load_trainable(spec, config.training.compute.device)[1]
        identity, frozen = encoder.identity, score(encoder)
        for seed in seeds:
            images, subsets = task.rows["image"].tolist(), [names[-1] for names in task.rows["subsets"]]
            chosen = select_training_rows(images, subsets, seed=seed)
            parts.append(_select_tested(frozen, ~chosen, f"{name}/{FROZEN}-{seed}"))
            for variant in VARIANTS:
                key = compute_fingerprint(__name__, content, identity, seed, variant)
                run = _Run(spec, f"{name}/{variant}-{seed}", variant, seed, key)
                path = folder / key / "similarities.parquet"
                if not path.exists():
                    tested = _train_and_score(run, task, chosen, config, score, measure, folder / key)
                    write_table(SIMILARITIES, tested, path)
                    shutil.rmtree(folder / key / CHECKPOINTS, ignore_errors=True)
                parts.append(read_table(SIMILARITIES, path).assign(model=run.name))
    return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class _Run:
    """A training: its model's spec, its name in tables, what is trained, its seed, and the hash of all that determines it."""

    spec: str
    name: str
    variant: str
    seed: int
    key: str


def _train_and_score(
    run: _Run,
    task: Comparisons,
    chosen: npt.NDArray[np.bool_],
    config: TuningConfig,
    score: Score,
    measure: Measure,
    folder: Path,
) -> pd.DataFrame:
    """Return table ``similarities`` of the test rows after a training, which is a run in MLflow."""
    clip, encoder = load_trainable(run.spec, config.training.compute.device)
    settings = _resolve_training(config, VARIANTS[run.variant], run.seed, clip)
    # A run that was killed may go on with other ones
    loop = replace(config.training.loop, num_workers=0)
    logged = asdict(replace(config, training=replace(config.training, loop=loop)))
    params = {**logged, "model": run.spec, "variant": run.variant, "seed": run.seed}
    tags = {"stage": "finetune_sugarcrepe_pp", "seed": str(run.seed)}
    with tracking.run(run.name, key=run.key, params=params, tags=tags):
        train_model(
            clip,
            task,
            chosen,
            method=config.method,
            epochs=config.epochs,
            rows=config.rows,
            settings=settings,
            scratch=folder / CHECKPOINTS,
            on_points=log_curve,
        )
        move_to_device(clip.model, settings.compute.device).eval()
        tested = _select_tested(score(encoder), ~chosen, run.name)
        _log_metrics(measure(tested))
    return tested


def load_trainable(spec: str, device: str) -> tuple[Clip, Encoder]:
    """Return a model to train, and a dual encoder over the same weights.

    Raises:
        ConfigError: the model belongs to a family that is not trained.
        BackendError: it is missing or damaged.
    """
    parsed = parse_spec(spec)
    if parsed.family == "open_clip":
        clip = open_target(parsed.target, device)
        return clip, ClipEncoder(clip, device, "fp32", parsed.name)
    if parsed.family == "dual":
        return load_trainable_flava(parsed.target, device, parsed.name)
    raise ConfigError(
        f"finetune_sugarcrepe_pp.models: {spec!r} is of family {parsed.family!r}. Models of open_clip and "
        f"FLAVA (dual:TARGET) can be tuned."
    )


def _resolve_training(
    config: TuningConfig, scope: TrainableScope, seed: int, clip: Clip
) -> ContrastiveConfig:
    """Return the settings of one training; a LoRA's targets are those that match a weight of the model."""
    training = config.training
    optimizer, trainable = training.optimizer, replace(training.scope, trainable=scope)
    if scope == "lora":
        optimizer = replace(optimizer, lr=config.lora_lr)
        assert trainable.lora is not None
        trainable = replace(trainable, lora=_match_targets(trainable.lora, clip.model))
    return replace(training, loop=replace(training.loop, seed=seed), optimizer=optimizer, scope=trainable)


def _match_targets(lora: LoraConfig, model: Any) -> LoraConfig:
    """Return the LoRA with the targets that match a weight: open_clip's and transformers' towers have other names.

    Raises:
        ConfigError: a tower of the model has none of the targets.
    """
    names = [name for name, value in model.named_parameters() if value.ndim >= 2]
    targets = tuple(target for target in lora.targets if any(fnmatch(name, target) for name in names))
    visual = {id(value) for value in model.visual.parameters()}
    reached = {
        id(value) in visual
        for name, value in model.named_parameters()
        if any(fnmatch(name, t) for t in targets)
    }
    if reached != {True, False}:
        tower = "image" if True not in reached else "text"
        raise ConfigError(
            f"finetune_sugarcrepe_pp.lora.targets reach no weight of the {tower} tower. Weights of the model, for "
            f"example:\n{format_items(names[:: max(1, len(names) // 8)])}"
        )
    return replace(lora, targets=targets)


def _select_tested(similarities: pd.DataFrame, tested: npt.NDArray[np.bool_], model: str) -> pd.DataFrame:
    """Return the tested rows under the model's name, with ``TESTED`` before the names of their subsets."""
    rows = similarities[tested].reset_index(drop=True)
    subsets = rows["subsets"].map(lambda names: [TESTED + name for name in names])
    tested_rows: pd.DataFrame = rows.assign(model=model, subsets=subsets)
    return tested_rows


def _hash_task(task: Comparisons, keys: Sequence[bytes]) -> str:
    """Return a hash of the rows and the images."""
    rows = task.rows.to_json(orient="records")
    return hashlib.sha256(json.dumps([rows, [key.hex() for key in keys]]).encode()).hexdigest()


def _log_metrics(metrics: dict[str, float]) -> None:
    import mlflow

    mlflow.log_metrics(metrics)
