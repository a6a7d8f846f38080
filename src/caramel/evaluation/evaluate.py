"""Score models on benchmarks; ``caramel eval`` and the stage ``evaluate`` both call ``run_evaluation``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel.errors import ConfigError
from caramel.evaluation.benchmark_source import BenchmarkSource, list_image_keys, read_task, select_scorable
from caramel.evaluation.mlflow_logging import log_metrics
from caramel.evaluation.preflight import find_duplicate_names, hash_contents
from caramel.evaluation.results.summary import select_overall_metrics, summarise_similarities
from caramel.evaluation.scores.encoding import RunConfig, compute_model_code_version
from caramel.evaluation.scores.scoring import compute_similarities
from caramel.interfaces.benchmark import Task
from caramel.interfaces.settings import Compute, Execution, Executor
from caramel.models.devices import get_gpus_per_worker, resolve_device
from caramel.models.embedding_cache import check_stores
from caramel.models.specs import get_family, hash_content, open_model, parse_spec
from caramel.plugins import PLUGINS_TAG, Plugin, format_plugins
from caramel.registry import BENCHMARKS, BLIND, FAMILIES, SCORERS
from caramel.runtime.mlflow import tracking
from caramel.runtime.mlflow.server import require_server
from caramel.runtime.ray import sharded_map, trials
from caramel.schemas.contracts import Table
from caramel.schemas.evaluation import ANSWERS, METRICS, SIMILARITIES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.utils.resampling import Bootstrap

MOST_TASKS = 64  # benchmarks that a process keeps at once
TRIAL_TABLES = {  # tables of a trial: metrics, and one of the other two
    "similarities.parquet": SIMILARITIES,
    "answers.parquet": ANSWERS,
    "metrics.parquet": METRICS,
}


class Evaluation(NamedTuple):
    """The results of all models on all benchmarks."""

    similarities: pd.DataFrame  # table ``similarities``
    answers: pd.DataFrame  # table ``answers``, for models that answer in words
    metrics: pd.DataFrame  # table ``metrics``
    rejects: pd.DataFrame  # table ``rejects``: rows of the benchmarks' files that define no query
    plugins: list[Plugin]  # benchmarks, model families and scorers of other packages


def run_evaluation(
    models: Sequence[str],
    sources: Sequence[BenchmarkSource],
    *,
    compute: Compute,
    batch_size: int | None,
    bootstrap: Bootstrap,
    execution: Execution,
    store: str | Path,
    limit: int | None = None,
    tags: Mapping[str, Mapping[str, str]] | None = None,
) -> Evaluation:
    """Score every model on every benchmark; each combination is a trial and an MLflow run.

    All captions are read and all images decoded before any model is loaded. Images are not needed if no model
    uses them. With Ray on this machine, several trials form a Ray Tune experiment. A single trial spreads its
    shards over all processors. On a cluster whose nodes share no disk, the trials run one after the other and
    each does the same.

    Args:
        models: specs; see ``models/specs.py``.
        sources: benchmarks.
        compute: device and precision.
        batch_size: items per forward pass; None: found automatically.
        bootstrap: settings of the intervals.
        execution: how trials run; a finished trial is not run again, unless questions to a chat model failed in it.
        store: folder of the embedding store.
        limit: number of instances of each benchmark; None: all.
        tags: by model name, further tags of its MLflow runs.

    Raises:
        ConfigError: two models have the same name, a benchmark is given twice, or the tracking server refuses
            this user.
        DataError: a file of a benchmark or an image is missing or broken.
        BackendError: a model is unknown, missing or broken, or cannot be scored on one of the benchmarks.
        ResourceError: a trial failed on Ray (the message holds its error), or the tracking server does not answer.
    """
    require_server()
    if repeated := find_duplicate_names(models, sources):
        raise ConfigError("\n".join(repeated))
    content_hashes, rejects = hash_contents(models, sources, limit)
    weights = {model: hash_content(model) for model in models}
    points = [
        {
            "model": model,
            "weights": weights[model],
            "tags": dict((tags or {}).get(parse_spec(model).name, {})),
            "source": source.to_dict(),
            "content": content_hashes[source.benchmark, get_family(model).looks_at_images],
        }
        for model in models
        for source in sources
    ]
    of_trials, of_shards = trials.select_executors(execution.executor, len(points))
    gpus = get_gpus_per_worker(execution.gpus, compute.device)
    if of_trials == "ray":
        check_stores(store, {compute_model_code_version(model) for model in models})
    order = take_turns(len(models), len(sources), trials.count_at_once(gpus))
    _read_items.cache_clear()  # an earlier evaluation of this process may have read other benchmarks
    results = trials.tune_grid(
        evaluate_model,
        [points[entry] for entry in order],
        settings={
            **asdict(compute),
            "batch_size": batch_size,
            **asdict(bootstrap),
            "limit": limit,
        },
        folder=execution.folder,
        executor=of_trials,
        title="evaluate",
        gpus=gpus,
        should_rerun=lambda result: result["failed"] > 0,  # the next run sends those questions again
        plan=lambda point, name: {
            "planned": _plan_run(
                point, name, precision=compute.precision, batch_size=batch_size, limit=limit
            ),
            "executor": of_shards,
            "gpus": gpus,
            "store": os.path.realpath(store),
        },
    )
    in_turn = dict(zip(order, results, strict=True))
    folders = [in_turn[entry].folder for entry in range(len(points))]
    scored, answered, judged = (
        _combine_tables(
            table, [read_table(table, entry / name) for entry in folders if (entry / name).exists()]
        )
        for name, table in TRIAL_TABLES.items()
    )
    plugins = _list_plugins(models, [source.benchmark for source in sources])
    return Evaluation(scored, answered, judged, rejects, plugins)


def take_turns(models: int, sources: int, at_once: int) -> list[int]:
    """Return an order of the trials, numbered model by model, in which concurrent trials have different models.

    ``at_once`` models go through their benchmarks side by side. Otherwise the benchmarks of one model would run at
    the same time, and each would encode what they share: the forms of a benchmark share all texts and half of the
    images.
    """
    return [
        model * sources + source
        for start in range(0, models, at_once)
        for source in range(sources)
        for model in range(start, min(start + at_once, models))
    ]


def evaluate_model(
    point: dict[str, Any],
    scratch: str,
    *,
    planned: tracking.PlannedRun,
    device: str,
    precision: str,
    batch_size: int | None,
    n_bootstrap: int,
    seed: int,
    store: str,
    limit: int | None,
    executor: Executor,
    gpus: float,
) -> dict[str, Any]:
    """Score one model on one benchmark, write ``TRIAL_TABLES`` into ``scratch`` and log one MLflow run.

    Args:
        point: ``model`` (spec), ``weights`` (hash of the weights), ``source`` (fields of ``BenchmarkSource``),
            ``content`` (hash of the instances and images) and ``tags``.
        scratch: folder of the trial.
        planned: the MLflow run.
        device: auto, cpu or cuda.
        precision: auto, fp32, bf16 or fp16.
        batch_size: items per forward pass; None: found automatically.
        n_bootstrap: number of resamples for the intervals.
        seed: seed of the bootstrap.
        store: folder of the embedding store.
        limit: number of instances; None: all.
        executor: executor of the shards.
        gpus: GPUs of one worker that encodes shards.

    Returns:
        ``failed``, the number of questions without an answer, and every metric over all instances.
    """
    source = BenchmarkSource(**point["source"])
    with_images = get_family(point["model"]).looks_at_images
    task, keys = _read_items(json.dumps(point["source"]), point["content"], limit, with_images)
    device = resolve_device(device)  # resolved here, because nodes of a cluster may have another device
    run = RunConfig(point["model"], Compute(device, precision), batch_size, store, executor, gpus)
    with tracking.open_run(planned):
        metrics, failed = _score(
            task, keys, run, source.benchmark, Bootstrap(n_bootstrap, seed), Path(scratch)
        )
        write_table(METRICS, metrics, Path(scratch, "metrics.parquet"))
        log_metrics(metrics, left_out=task.left_out)
    return {**select_overall_metrics(metrics), "failed": failed}


def _score(
    task: Task, keys: list[bytes], run: RunConfig, name: str, bootstrap: Bootstrap, scratch: Path
) -> tuple[pd.DataFrame, int]:
    """Write similarities or answers of a model into ``scratch``; return its metrics and the number of failed questions."""
    from caramel.evaluation.results.answers import summarise_answers
    from caramel.evaluation.scores.multiple_choice import collect_answers, drop_missing_images
    from caramel.interfaces.model import Chooser

    benchmarks = {name: BENCHMARKS[name]}
    model = open_model(run.model, run.compute.device, run.compute.precision)
    if isinstance(model, Chooser):
        answer_rows = collect_answers(task, keys, run, benchmark=name)
        failed = int((drop_missing_images(answer_rows, task)["outcome"] == "failed").sum())
        write_table(ANSWERS, answer_rows, scratch / "answers.parquet")
        return summarise_answers(answer_rows, benchmarks, bootstrap=bootstrap), failed
    rows = compute_similarities(task, keys, run, benchmark=name)
    write_table(SIMILARITIES, rows, scratch / "similarities.parquet")
    return summarise_similarities(rows, benchmarks, bootstrap=bootstrap), 0


@lru_cache(MOST_TASKS)  # a worker scores one model after the other on all benchmarks
def _read_items(source: str, content: str, limit: int | None, with_images: bool) -> tuple[Task, list[bytes]]:
    """Return the scorable task of a source (JSON) and its image keys; ``content`` is the hash in the trial's point."""
    where = BenchmarkSource(**json.loads(source))
    task = select_scorable(read_task(where, limit), where, with_images)
    return task, list_image_keys(task, with_images)


def _list_plugins(models: Sequence[str], benchmarks: Sequence[str]) -> list[Plugin]:
    """Return the benchmarks, families of models and blind scorers of other packages that are used."""
    specs = [parse_spec(model) for model in models]
    scorers = [spec.target.partition(":")[0] for spec in specs if spec.family == BLIND]
    return [
        *BENCHMARKS.select_plugins(benchmarks),
        *FAMILIES.select_plugins(spec.family for spec in specs),
        *SCORERS.select_plugins(scorers),
    ]


def _plan_run(
    point: dict[str, Any], trial: str, *, precision: str, batch_size: int | None, limit: int | None
) -> tracking.PlannedRun:
    """Return the MLflow run of a model on a benchmark."""
    source = BenchmarkSource(**point["source"])
    of_what = "" if source.benchmark == "instances" else f" on {source.benchmark}"
    params = {
        "model": point["model"],
        "benchmark": source.benchmark,
        "data": source.data,
        "content": point["content"],
        "weights": point["weights"],
        "precision": precision,
        "batch_size": batch_size,
        "limit": limit,
        "missing": source.missing,
        **source.options,
        **{name: point["tags"][name] for name in ("variant", "seed") if name in point["tags"]},
    }
    plugins = format_plugins(_list_plugins([point["model"]], [source.benchmark]))
    return tracking.plan_run(
        f"evaluate {parse_spec(point['model']).name}{of_what}",
        key=sharded_map.compute_fingerprint(__name__, trial),
        params=params,
        data=source.dvc,
        tags={
            "stage": "evaluate",
            "benchmark": source.benchmark,
            **({PLUGINS_TAG: plugins} if plugins else {}),
            **point["tags"],
        },
    )


def select_executor() -> Executor:
    """Return ``ray`` if there is a cluster or more than one GPU, else ``inline``."""
    import torch

    return "ray" if os.environ.get("RAY_ADDRESS") or torch.cuda.device_count() > 1 else "inline"


def _combine_tables(table: Table, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return build_frame(table, pd.concat(parts, ignore_index=True) if parts else [])
