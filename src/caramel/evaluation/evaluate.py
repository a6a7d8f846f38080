"""Models × benchmarks: the one function behind ``caramel eval`` and the stage ``evaluate``."""

from __future__ import annotations

import hashlib
import math
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel import tables
from caramel.benchmarks.image_files import check_images, content_keys
from caramel.benchmarks.tasks import limited
from caramel.errors import BackendError, CaramelError, ConfigError, DataError, shown
from caramel.evaluation.encoding import Run, code_of
from caramel.evaluation.fitness import unfit
from caramel.evaluation.results.summary import summarise
from caramel.evaluation.scoring import similarities
from caramel.kinds.benchmark import Rankings, Task
from caramel.models.families.specs import content_of, family_of, missing_of, open_model, parse_spec
from caramel.models.store import check_stores
from caramel.registry import BENCHMARKS
from caramel.running import parallel, tracking
from caramel.storage.fields import brief

_NO_SIGN = re.compile(r"[^\w./ -]")  # of a name in MLflow
_LONGEST = 250  # signs of one
_AT_ONCE = 8192  # rows that are hashed together


@dataclass(frozen=True)
class Source:
    """Where a benchmark lies.

    Attributes:
        benchmark: name in the registry.
        data: its folder.
        images: folder of its images.
        options: further keyword arguments of its reader.
        dvc: DVC paths that it is read from, for the MLflow run.
    """

    benchmark: str
    data: str
    images: str
    options: Mapping[str, Any] = field(default_factory=dict)
    dvc: tuple[str, ...] = ()


def source_of(name: str, data: Path, images: Path | None) -> Source:
    """Return where a benchmark lies: in ``data/NAME``, or in ``data`` where there is no such folder.

    Its images likewise: in ``images/NAME``, or in ``images``, which many benchmarks may share; without ``images``
    in the benchmark's folder.
    """
    folder = data / name if (data / name).is_dir() else data
    if images is None:
        return Source(name, str(folder), str(folder))
    own = images / name
    return Source(name, str(folder), str(own if own.is_dir() and own != folder else images))


class Evaluation(NamedTuple):
    """What all models did on all benchmarks."""

    similarities: pd.DataFrame  # table ``similarities``
    answers: pd.DataFrame  # table ``answers``: of models that answer in words
    metrics: pd.DataFrame  # table ``metrics``


def evaluate(
    models: Sequence[str],
    sources: Sequence[Source],
    *,
    device: str,
    precision: str,
    batch: int | None,
    bootstrap: int,
    seed: int,
    executor: parallel.Executor,
    store: str | Path,
    folder: str | Path,
    limit: int | None = None,
    tags: Mapping[str, Mapping[str, str]] | None = None,
) -> Evaluation:
    """Score every model on every benchmark; each is a trial and an MLflow run.

    All captions are read and all images decoded before any model is loaded; models that are shown no image need
    none. With Ray, several trials are a Ray Tune experiment; a single one spreads its own shards over the cluster.

    Args:
        models: specs; see ``models/families/specs.py``.
        sources: benchmarks.
        device: auto, cpu or cuda.
        precision: auto, fp32, bf16 or fp16.
        batch: items per forward pass; None: found automatically.
        bootstrap: resamples of the intervals.
        seed: of the bootstrap.
        executor: ray or inline.
        store: folder of the embedding store.
        folder: of the trials' results; a trial that is done is not run again, unless questions of a chat model
            failed in it.
        limit: number of instances of each benchmark; None: all.
        tags: by model name, further tags of its MLflow runs.

    Raises:
        ConfigError: two models have one name, or a benchmark stands twice.
        DataError: a file of a benchmark is missing or broken, or images are.
        BackendError: a model is unknown, missing or broken, or cannot be scored on one of the benchmarks.
        ResourceError: a trial failed on Ray; the message holds its error.
    """
    twice = _twice(models, sources)
    if twice:
        raise ConfigError("\n".join(twice))
    gpus = Run("", device, precision, batch, "", executor).gpus
    contents = _contents(models, sources, limit)
    weights = {model: content_of(model) for model in models}
    points = [
        {
            "model": model,
            "weights": weights[model],
            "tags": dict((tags or {}).get(parse_spec(model).name, {})),
            "source": asdict(source),
            "content": contents[source.benchmark, family_of(model).looks_at_images],
        }
        for model in models
        for source in sources
    ]
    alone = executor == "inline" or len(points) == 1
    if not alone:
        check_stores(store, {code_of(model) for model in models})
    results = parallel.tune_grid(
        evaluate_model,
        points,
        settings={
            "workspace": str(Path.cwd()),
            "root": str(tracking.store_root()),
            "device": device,
            "precision": precision,
            "batch": batch,
            "bootstrap": bootstrap,
            "seed": seed,
            "store": str(Path(store).resolve()),
            "limit": limit,
            "executor": executor if alone else "inline",
        },
        folder=folder,
        executor="inline" if alone else executor,
        title="evaluate",
        gpus=gpus,
        again=lambda result: result["failed"] > 0,  # the next run asks those questions again
    )
    scored = [tables.read(tables.SIMILARITIES, r["similarities"]) for r in results if r["similarities"]]
    answered = [tables.read(tables.ANSWERS, r["answers"]) for r in results if r["answers"]]
    judged = [tables.read(tables.METRICS, r["metrics"]) for r in results]
    return Evaluation(
        _joined(tables.SIMILARITIES, scored),
        _joined(tables.ANSWERS, answered),
        _joined(tables.METRICS, judged),
    )


def evaluate_model(
    point: dict[str, Any],
    scratch: str,
    *,
    workspace: str,
    root: str,
    device: str,
    precision: str,
    batch: int | None,
    bootstrap: int,
    seed: int,
    store: str,
    limit: int | None,
    executor: parallel.Executor,
) -> dict[str, Any]:
    """Score one model on one benchmark, write its tables into ``scratch`` and log one MLflow run.

    Args:
        point: ``model`` (spec), ``weights`` (their hash), ``source`` (as ``Source``), ``content`` (hash of
            the instances and images) and ``tags``.
        scratch: folder of the trial.
        workspace: folder with ``dvc.lock``.
        root: the project's root, for tracking.
        device: auto, cpu or cuda.
        precision: auto, fp32, bf16 or fp16.
        batch: items per forward pass; None: found automatically.
        bootstrap: resamples of the intervals.
        seed: of the bootstrap.
        store: folder of the embedding store.
        limit: number of instances; None: all.
        executor: of the shards.

    Returns:
        ``similarities``, ``answers`` and ``metrics``: paths of the tables, None for one that there is not;
        ``failed``: number of questions without an answer; and every metric over all instances.
    """
    from caramel.evaluation.choices import answers
    from caramel.evaluation.results.answers import summarise_answers
    from caramel.kinds.model import Chooser

    source = Source(**point["source"])
    found = BENCHMARKS[source.benchmark]
    task = read_task(source, limit)
    keys = _keys(task, family_of(point["model"]).looks_at_images)
    run = Run(point["model"], device, precision, batch, store, executor)
    model = open_model(run.model, device, precision)
    paths: dict[str, str | None] = {"similarities": None, "answers": None}
    failed = 0
    if isinstance(model, Chooser):
        said = answers(task, keys, run, benchmark=source.benchmark)
        failed = int((said["outcome"] == "failed").sum())
        paths["answers"] = str(tables.write(tables.ANSWERS, said, Path(scratch, "answers.parquet")))
        metrics = summarise_answers(said, {source.benchmark: found}, bootstrap=bootstrap, seed=seed)
    else:
        rows = similarities(task, keys, run, benchmark=source.benchmark)
        paths["similarities"] = str(
            tables.write(tables.SIMILARITIES, rows, Path(scratch, "similarities.parquet"))
        )
        metrics = summarise(rows, {source.benchmark: found}, bootstrap=bootstrap, seed=seed)
    path = tables.write(tables.METRICS, metrics, Path(scratch, "metrics.parquet"))
    params = {
        "model": point["model"],
        "benchmark": source.benchmark,
        "data": source.data,
        "content": point["content"],
        "weights": point["weights"],
        "precision": precision,
        "batch": batch,
        "limit": limit,
        **source.options,
        **{name: point["tags"][name] for name in ("variant", "seed") if name in point["tags"]},
    }
    _log(point, source, model.name, metrics, params, key=Path(scratch).name, root=root, workspace=workspace)
    return {**overall(metrics), **paths, "metrics": str(path), "failed": failed}


def read_task(source: Source, limit: int | None = None) -> Task:
    """Return the task of a benchmark, or its first instances.

    Raises:
        DataError: a file is missing or broken.
    """
    if not Path(source.data).is_dir():
        raise DataError(
            f"Benchmark {source.benchmark!r}: there is no folder {source.data!r}. Expected layout:\n"
            f"{BENCHMARKS[source.benchmark].layout}"
        )
    read = BENCHMARKS[source.benchmark].read
    return limited(read(Path(source.data), Path(source.images), **source.options), limit)


def missing(models: Sequence[str], sources: Sequence[Source], limit: int | None = None) -> list[str]:
    """Return all that keeps the evaluation from being run, without loading a model: an entry each."""
    found, known = _twice(models, sources), []
    for model in models:
        try:
            found += [f"model {model!r}: {line}" for line in missing_of(model)]
            known.append(model)
        except BackendError as error:  # its family cannot be told
            found.append(str(error))
    for source in sources:
        try:
            task = read_task(source, limit)
            check_instances(task, source)
            found += _unfit(known, source, task)
            if any(family_of(model).looks_at_images for model in known):
                check_images(task.images, source.benchmark)
        except CaramelError as error:
            found.append(f"benchmark {source.benchmark!r}: {error}")
    return found


def overall(metrics: pd.DataFrame) -> dict[str, float]:
    """Return the metrics over all instances of one model, to six decimals; unscored ones left out."""
    rows = metrics[metrics["subset"] == "all"]
    values = zip(rows["metric"], rows["value"], strict=True)
    return {str(name): round(float(value), 6) for name, value in values if not math.isnan(value)}


def automatic_executor() -> parallel.Executor:
    """Return ``ray`` where there is a cluster or more than one GPU, else ``inline``."""
    import torch

    return "ray" if os.environ.get("RAY_ADDRESS") or torch.cuda.device_count() > 1 else "inline"


def _keys(task: Task, with_images: bool) -> list[bytes]:
    """Return the content key of each image; its number where no image is looked at."""
    return content_keys(task.images) if with_images else [str(i).encode() for i in range(len(task.images))]


def _twice(models: Sequence[str], sources: Sequence[Source]) -> list[str]:
    """Return what is wrong if the tables could not tell two models or benchmarks apart."""
    found = []
    for what, names in (
        ("model", [parse_spec(model).name for model in models if _is_known(model)]),
        ("benchmark", [source.benchmark for source in sources]),
    ):
        found += [
            f"{what} {name!r} stands {names.count(name)} times. Give each {what} once"
            f"{', and a name of its own: NAME=SPEC' if what == 'model' else ''}."
            for name in dict.fromkeys(names)
            if names.count(name) > 1
        ]
    return found


def _is_known(model: str) -> bool:
    """Return whether the family of a spec can be told."""
    try:
        parse_spec(model)
    except BackendError:
        return False
    return True


def _contents(
    models: Sequence[str], sources: Sequence[Source], limit: int | None
) -> dict[tuple[str, bool], str]:
    """Return (benchmark, whether images are shown) -> hash of all that is scored, after checking it.

    Raises:
        DataError: captions or images are missing or broken.
        BackendError: a model cannot be scored on a benchmark.
    """
    with_images = {family_of(model).looks_at_images for model in models}
    found: dict[tuple[str, bool], str] = {}
    problems: list[str] = []
    for source in sources:
        task = read_task(source, limit)
        check_instances(task, source)
        problems += _unfit(models, source, task)
        if not problems:
            instances = _digest(task)
            for looking in with_images:
                keys = check_images(task.images, source.benchmark) if looking else []
                whole = hashlib.sha256(b"".join([*keys, instances])).hexdigest()
                found[source.benchmark, looking] = whole[:32]
    if problems:
        raise BackendError("\n".join(problems))
    return found


def _unfit(models: Sequence[str], source: Source, task: Task) -> list[str]:
    """Return why models cannot be scored on a task, a line each."""
    reasons = [unfit(model, BENCHMARKS[source.benchmark], task) for model in models]
    return [reason for reason in reasons if reason]


def check_instances(task: Task, source: Source) -> None:
    """Raise DataError where two instances have one name."""
    twice = task.rows["instance_id"][task.rows["instance_id"].duplicated()]
    if len(twice):
        raise DataError(
            f"Benchmark {source.benchmark!r}: {len(twice)} instances stand twice:\n"
            f"{shown([brief(name) for name in twice])}"
        )


def _digest(task: Task) -> bytes:
    """Return a hash of all that a task asks, but of its images."""
    digest = hashlib.sha256()
    for start in range(0, len(task.rows), _AT_ONCE):
        digest.update(task.rows.iloc[start : start + _AT_ONCE].to_json(orient="values").encode())
    if isinstance(task, Rankings):
        for text in task.texts:
            digest.update(repr(text).encode())
        for pool in task.pools:
            digest.update(repr(pool.shape).encode() + pool.tobytes())
    return digest.digest()


def _joined(table: tables.Table, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return tables.frame(table, pd.concat(parts, ignore_index=True) if parts else [])


def _log(
    point: dict[str, Any],
    source: Source,
    name: str,
    metrics: pd.DataFrame,
    params: dict[str, Any],
    *,
    key: str,
    root: str,
    workspace: str,
) -> None:
    """Log the metrics, by subset, and their figure as one MLflow run."""
    import mlflow

    from caramel.evaluation.results.bars import subset_bars

    title = (
        f"evaluate {name}" if source.benchmark == "instances" else f"evaluate {name} on {source.benchmark}"
    )
    with tracking.run(
        title,
        key=key,
        params=params,
        data=source.dvc,
        tags={"stage": "evaluate", "benchmark": source.benchmark, **point["tags"]},
        root=root,
        workspace=workspace,
    ):
        scored = metrics.dropna(subset=["value"])
        names = logged_names(scored["metric"].tolist(), scored["subset"].tolist())
        mlflow.log_metrics(dict(zip(names, scored["value"].astype(float), strict=True)))
        if len(scored):
            mlflow.log_figure(subset_bars(metrics), "subsets.png")


def logged_names(metrics: Sequence[str], subsets: Sequence[str]) -> list[str]:
    """Return the name of each metric of a subset in MLflow, ``METRIC/SUBSET``, all of them different.

    MLflow allows few signs in a name, 250 of them, and no path that leads elsewhere. Subsets are named by the data:
    one whose name will not do goes by a hash of it.
    """
    found: dict[str, None] = {}
    for metric, subset in zip(metrics, subsets, strict=True):
        name = _NO_SIGN.sub(" at ", f"{metric}/{subset}")
        if len(name) > _LONGEST or posixpath.normpath(name) != name or name in found:
            digest = hashlib.sha256(subset.encode()).hexdigest()[:16]
            name = _NO_SIGN.sub(" at ", f"{metric}/{digest}")
        found[name] = None
    return [*found]
