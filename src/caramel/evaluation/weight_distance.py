"""Measure the distance of fine-tuned models from their base, in weights and in embeddings."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from caramel.errors import BackendError
from caramel.evaluation.benchmark_source import BenchmarkSource, hash_task, list_image_keys, read_task
from caramel.evaluation.scores.encoding import RunConfig, encode_items
from caramel.evaluation.scores.item_scores import DualEncoderScores
from caramel.interfaces.benchmark import ImageFile, Index, Rankings
from caramel.interfaces.settings import Compute, Executor
from caramel.models.loading.state_dicts import read_state
from caramel.models.open_clip.checkpoints import WEIGHTS
from caramel.models.specs import hash_content, open_model
from caramel.runtime.ray.trials import select_executors, tune_grid

TEMPERATURE = ("logit_scale", "logit_bias")


def compute_distances(
    folders: Mapping[str, str], base: str, source: BenchmarkSource, run: RunConfig, folder: str | Path
) -> dict[str, dict[str, float]]:
    """Return ``weights``, ``images`` and ``texts`` of each model, see ``results.forgetting.DISTANCE_MEASURES``.

    - ``weights`` is ‖θ − θ0‖ / ‖θ0‖ over all weights of both towers, without the temperature.
    - ``images`` and ``texts`` are the mean cosine between the model's and the base's embedding of an item of the
      task. The embeddings come from the store.

    Each model is a trial. It is not loaded again while the model, the base and the task are unchanged.

    Args:
        folders: checkpoint folder by name of the model; the base is one of them.
        base: name of the base.
        source: a benchmark of rankings that all models were scored on.
        run: how the models were scored; its ``model`` is not used.
        folder: folder of the trials' results.

    Raises:
        BackendError: a checkpoint is missing or broken.
    """
    task = read_task(source)
    specs = {name: f"{name}=open_clip:{path}" for name, path in folders.items()}
    weights = {name: hash_content(spec) for name, spec in specs.items()}
    _, of_shards = select_executors(run.executor, len(specs))
    trials = tune_grid(
        distance,
        [
            {"name": name, "spec": spec, "folder": folders[name], "content": weights[name]}
            for name, spec in specs.items()
        ],
        settings={
            "base": {"spec": specs[base], "folder": folders[base], "content": weights[base]},
            "source": source.to_dict(),
            "content": hashlib.sha256(b"".join([*list_image_keys(task, True), hash_task(task)])).hexdigest(),
            "device": run.compute.device,
            "precision": run.compute.precision,
            "batch_size": run.batch_size,
        },
        folder=folder,
        executor="inline",  # the embeddings are stored; worker processes would import torch for a second of work
        title="distances",
        gpus=run.gpus,
        plan=lambda point, name: {
            "store": os.path.realpath(run.store),
            "executor": of_shards,
            "gpus": run.gpus,
        },
    )
    return {name: trial.result for name, trial in zip(folders, trials, strict=True)}


def distance(
    point: Mapping[str, Any],
    scratch: str,
    *,
    base: Mapping[str, str],
    source: Mapping[str, Any],
    content: str,
    device: str,
    precision: str,
    batch_size: int | None,
    store: str,
    executor: Executor,
    gpus: float,
) -> dict[str, float]:
    """Return the distances of one model from the base: one trial.

    Args:
        point: ``name``, ``spec``, ``folder`` and ``content`` (a hash) of the model.
        scratch: not used; nothing is written.
        base: ``spec``, ``folder`` and ``content`` of the base.
        source: fields of ``BenchmarkSource``.
        content: hash of the source's task.
        device, precision, batch_size, store, executor, gpus: as in ``RunConfig``.
    """
    items = json.dumps(source, sort_keys=True), content
    run = Compute(device, precision), batch_size, store, executor, gpus
    first, other = (_encode_items(of["spec"], of["content"], *items, *run) for of in (base, point))
    return {
        "weights": compute_weight_distance(Path(base["folder"]), Path(point["folder"])),
        "images": _compute_mean_cosine(first.images, other.images),
        "texts": _compute_mean_cosine(first.texts, other.texts),
    }


@lru_cache(2)  # the base, which each model is compared with, is used in every second call
def _encode_items(
    spec: str,
    weights: str,
    source: str,
    content: str,
    compute: Compute,
    batch_size: int | None,
    store: str,
    executor: Executor,
    gpus: float,
) -> DualEncoderScores:
    """Return a model's embeddings of a task's items; ``weights`` is the model's hash, the rest as in ``distance``."""
    images, keys, texts = _read_items(source, content)

    def build_empty_pairs() -> tuple[Index, Index]:
        return np.empty(0, np.int64), np.empty(0, np.int64)

    model = open_model(spec, compute.device, compute.precision)
    run = RunConfig(spec, compute, batch_size, store, executor, gpus)
    embeddings = encode_items(images, keys, texts, build_empty_pairs, run, model)  # type: ignore[arg-type]
    assert isinstance(embeddings, DualEncoderScores)
    return embeddings


@lru_cache(1)  # each model is compared on the same items
def _read_items(source: str, content: str) -> tuple[Sequence[ImageFile], Sequence[bytes], Sequence[str]]:
    """Return the images, image keys and texts of a task; ``source`` is JSON, ``content`` is the task's hash."""
    task = read_task(BenchmarkSource(**json.loads(source)))
    assert isinstance(task, Rankings)
    return task.images, list_image_keys(task, True), [text for prompts in task.texts for text in prompts]


def compute_weight_distance(base: Path, folder: Path) -> float:
    """Return ‖θ − θ0‖ / ‖θ0‖ over the weights of two checkpoint folders, without the temperature.

    Raises:
        BackendError: the checkpoints have different sets of weights.
    """
    before, after = (
        {name: value for name, value in read_state(checkpoint / WEIGHTS).items() if name not in TEMPERATURE}
        for checkpoint in (base, folder)
    )
    if other := sorted(set(before) ^ set(after)):
        raise BackendError(
            f"Checkpoint {str(folder)!r} has other weights than its base {str(base)!r}: {other[0]!r} is in only one of "
            f"them. Train it again."
        )
    names = [name for name, value in before.items() if value.is_floating_point()]
    # numpy's sums are the same with any number of threads; on a cluster this runs on the driver's machine.
    theirs = [(after[n].double().numpy(), before[n].double().numpy()) for n in names]
    squares = [(np.square(a - b).sum(), np.square(b).sum()) for a, b in theirs]
    changed, whole = (float(sum(parts)) for parts in zip(*squares, strict=True))
    return float((changed / whole) ** 0.5)


def _compute_mean_cosine(left: np.ndarray, right: np.ndarray) -> float:
    """Return the mean over rows of the cosines of paired unit vectors, (n, d) each."""
    return float((left.astype(np.float64) * right).sum(axis=1).mean())
