"""The one distributed primitive: a resumable sharded map.

A shard's result is one Parquet file named by the hash of its inputs, its settings and the
code version. It is written to a temporary name and renamed, so a file that is there is
complete. Done shards are skipped: a killed run resumes without loss or repeat, and gives the
same bytes on any number of workers. One machine is ``ray.init()``; a cluster is
``RAY_ADDRESS``; nothing else changes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from caramel.errors import ResourceError
from caramel.files import write_atomically

Executor = Literal["ray", "inline"]
Shard = TypeVar("Shard")
Result = TypeVar("Result")
RETRIES = 3  # of a task whose worker or node died; a Python exception is not retried


@functools.cache
def code_version() -> str:
    """Return a hash over all sources of the package: edited code never reuses old shards."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def fingerprint(*parts: Any) -> str:
    """Return a hash of JSON-like values and of the code version, as 32 hexadecimal digits."""
    text = json.dumps([code_version(), *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@contextmanager
def ray_session() -> Iterator[None]:
    """Join the cluster at ``RAY_ADDRESS`` or start one on this machine, for the block's time."""
    import ray

    if ray.is_initialized():
        yield
        return
    ray.init(log_to_driver=False, logging_level="error", include_dashboard=False)
    try:
        yield
    finally:
        ray.shutdown()


def sharded_map(
    work: Callable[..., pa.Table],
    shards: Sequence[Shard],
    *,
    settings: Mapping[str, Any],
    inputs: Sequence[str] = (),
    folder: str | Path,
    executor: Executor,
    title: str,
    gpus: float = 0.0,
) -> list[Path]:
    """Return one result file per shard, in the shards' order.

    Args:
        work: top-level function ``work(shard, **settings)``; deterministic given its arguments.
        shards: JSON-like inputs, each with its own seed if it draws at random.
        settings: JSON-like keyword arguments of ``work``, the same for all shards.
        inputs: content hashes of files that ``work`` reads.
        folder: where result files lie; shared by all nodes of a cluster.
        executor: ``inline`` runs in this process, ``ray`` on the cluster.
        title: of the progress bar.
        gpus: GPUs that one task needs.

    Raises:
        ResourceError: a worker died more than ``RETRIES`` times on one shard.
    """
    folder = Path(folder).resolve()
    base = [f"{work.__module__}.{work.__qualname__}", dict(settings), list(inputs)]
    paths = [folder / f"{fingerprint(*base, shard)}.parquet" for shard in shards]
    todo = [(s, p) for s, p in zip(shards, paths, strict=True) if not p.exists()]
    bar = tqdm(total=len(shards), initial=len(shards) - len(todo), desc=title, unit="shard")
    with bar:
        if executor == "inline" or len(todo) == 0:
            for shard, path in todo:
                _run_shard(work, shard, dict(settings), path)
                bar.update()
        else:
            with ray_session():
                _run_on_ray(work, todo, dict(settings), gpus, bar)
    return paths


def _run_shard(work: Callable[..., pa.Table], shard: Any, settings: dict[str, Any], path: Path) -> None:
    table = work(shard, **settings)
    write_atomically(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))


def _run_on_ray(
    work: Callable[..., pa.Table],
    todo: Sequence[tuple[Any, Path]],
    settings: dict[str, Any],
    gpus: float,
    bar: tqdm[Any],
) -> None:
    """Run the shards as Ray tasks and wait for all; one failed shard stops the map."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    task = ray.remote(max_retries=RETRIES, num_cpus=1, num_gpus=gpus)(_run_shard)
    waiting = {task.remote(work, shard, settings, path): path for shard, path in todo}
    while waiting:
        done, _ = ray.wait(list(waiting), num_returns=1)
        path = waiting.pop(done[0])
        try:
            ray.get(done[0])
        except RayTaskError as error:
            raise error.as_instanceof_cause() from error
        except RayError as error:  # a worker or node died, or ran out of memory
            raise ResourceError(
                f"The worker of shard {path.name} died ({type(error).__name__}), after {RETRIES} retries. "
                f"It may have run out of memory: use smaller shards. Done shards are kept; run `dvc repro` to go on."
            ) from error
        bar.update()


def tune_grid(
    trial: Callable[..., dict[str, Any]],
    points: Sequence[Mapping[str, Any]],
    *,
    settings: Mapping[str, Any],
    inputs: Sequence[str] = (),
    folder: str | Path,
    executor: Executor,
    title: str,
    gpus: float = 0.0,
) -> list[dict[str, Any]]:
    """Return the result of ``trial`` at each point of a grid, in the grid's order.

    On Ray the grid is a Ray Tune experiment named ``title``. A finished trial's result is kept
    as JSON beside its scratch folder, by the same hash as a shard's; a trial whose driver or
    worker died is started again and resumes from what it left in its scratch folder.

    Args:
        trial: top-level function ``trial(point, scratch, **settings)`` that returns JSON-like
            results; ``scratch`` is a folder of its own that outlives a crash.
        points: JSON-like points of the grid.
        settings: JSON-like keyword arguments of ``trial``, the same for all points.
        inputs: content hashes of files that ``trial`` reads.
        folder: where scratch folders and results lie; shared by all nodes of a cluster.
        executor: ``inline`` runs in this process, ``ray`` as a Ray Tune experiment.
        title: name of the experiment.
        gpus: GPUs that one trial needs.

    Raises:
        ResourceError: a trial failed; the message holds its error. Finished trials are kept.
    """
    folder = Path(folder).resolve()
    base = [f"{trial.__module__}.{trial.__qualname__}", dict(settings), list(inputs)]
    scratches = [folder / fingerprint(*base, dict(point)) for point in points]
    todo = [i for i, s in enumerate(scratches) if not s.with_suffix(".json").exists()]
    jobs = [(dict(points[i]), str(scratches[i])) for i in todo]
    if executor == "inline":
        for point, scratch in tqdm(jobs, desc=title, unit="trial"):
            _run_trial(trial, point, scratch, dict(settings))
    elif jobs:
        _run_on_tune(trial, jobs, dict(settings), folder, title, gpus)
    return [json.loads(s.with_suffix(".json").read_text()) for s in scratches]


def _run_trial(
    trial: Callable[..., dict[str, Any]], point: dict[str, Any], scratch: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """Run one trial and keep its result."""
    Path(scratch).mkdir(parents=True, exist_ok=True)
    result = trial(point, scratch, **settings)
    text = json.dumps(result, sort_keys=True)
    write_atomically(Path(scratch).with_suffix(".json"), lambda t: t.write_text(text))
    return result


def _run_on_tune(
    trial: Callable[..., dict[str, Any]],
    jobs: Sequence[tuple[dict[str, Any], str]],
    settings: dict[str, Any],
    folder: Path,
    title: str,
    gpus: float,
) -> None:
    """Run the jobs as one Ray Tune experiment; raise the first error after all have ended."""
    from ray import tune

    def trainable(config: dict[str, Any]) -> None:
        point, scratch = config["job"]
        try:
            result = _run_trial(trial, point, scratch, settings)
        except Exception as error:  # noqa: BLE001 - the driver raises it: Tune would only try again
            _error_file(scratch).write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
            result = {"failed": 1}
        tune.report({k: v for k, v in result.items() if isinstance(v, int | float)})

    for _, scratch in jobs:
        _error_file(scratch).unlink(missing_ok=True)
    with ray_session():
        grid = tune.Tuner(
            tune.with_resources(trainable, {"cpu": 1, "gpu": gpus}),
            param_space={"job": tune.grid_search(list(jobs))},
            run_config=tune.RunConfig(
                name=title,
                storage_path=str(folder / "tune"),
                verbose=1,
                progress_reporter=tune.CLIReporter(max_report_frequency=30),
                failure_config=tune.FailureConfig(max_failures=RETRIES),  # of workers that died
            ),
        ).fit()
    errors = [_error_file(s).read_text(encoding="utf-8") for _, s in jobs if _error_file(s).exists()]
    errors += [str(error).strip().splitlines()[-1] for error in grid.errors]
    missing = sum(not Path(scratch).with_suffix(".json").exists() for _, scratch in jobs)
    if missing and not errors:
        errors = ["the experiment was interrupted"]
    if errors:
        raise ResourceError(
            f"{missing} of {len(jobs)} trials of {title!r} failed; the first said: {errors[0]}\n"
            f"Finished trials are kept in {folder}; run `dvc repro` to go on."
        )


def _error_file(scratch: str) -> Path:
    return Path(scratch).with_suffix(".error")


def threaded(function: Callable[[Shard], Result], items: Sequence[Shard]) -> list[Result]:
    """Return the function of each item, in threads of this process: for work that releases the interpreter.

    Reading, decoding and resizing images do.
    """
    workers = min(16, os.cpu_count() or 1)
    if workers == 1 or len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))
