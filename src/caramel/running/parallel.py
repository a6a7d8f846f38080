"""The one distributed primitive: a resumable sharded map.

A shard's result is one Parquet file named by the hash of its inputs, its settings and the
code that makes it, and by the hash of its content (``files.keep``). Done shards that are whole are
skipped: a killed run resumes without loss or repeat, and gives the same bytes on any number of
workers. One machine is ``ray.init()``; a cluster is ``RAY_ADDRESS``; nothing else changes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from caramel.errors import ResourceError
from caramel.running.closures import code_version
from caramel.running.cluster import LOOK, RETRIES, ray_session
from caramel.storage.files import check, discard, hashes, keep, kept
from caramel.storage.volumes import blamed

Executor = Literal["ray", "inline"]
Shard = TypeVar("Shard")
Result = TypeVar("Result")
_Job = tuple[Callable[..., pa.Table], Any, dict[str, Any], Path]  # work, shard, settings, where to write
PER_CORE = 4  # tasks at the cluster at a time, for each of its cores: the next ones are ready, and no more


def fingerprint(module: str, *parts: Any) -> str:
    """Return a hash of JSON-like values and of the code that a module reaches, as 32 hexadecimal digits.

    Args:
        module: name of the module or script whose results are kept; see ``closures.code_version``.
        parts: what else they depend on.
    """
    text = json.dumps([code_version(module), *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


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
        ResourceError: a worker died more than ``RETRIES`` times on one shard, or Ray was killed.
    """
    folder = _folder(folder)
    base = (work.__qualname__, dict(settings), list(inputs))
    names = [fingerprint(work.__module__, *base, shard) for shard in shards]
    done = kept(folder, ".parquet", {*names})
    todo = {name: shard for name, shard in zip(names, shards, strict=True) if name not in done}
    jobs = [(work, shard, dict(settings), folder / f"{name}.parquet") for name, shard in todo.items()]
    with tqdm(total=len({*names}), initial=len(done), desc=title, unit="shard", disable=None) as bar:
        results = map(_run_shard, jobs) if executor == "inline" or not jobs else _on_ray(jobs, gpus)
        for name, path in results:
            done[name] = path
            bar.update()
    return [done[name] for name in names]


def _folder(folder: str | Path) -> Path:
    """Return the folder of results, absolute."""
    folder = Path(folder).resolve()
    if folder.exists() and not folder.is_dir():
        raise ResourceError(f"Results go into the folder {str(folder)!r}, but a file is there. Move it away.")
    return folder


def _run_shard(job: _Job) -> tuple[str, Path]:
    """Run one shard; return its name and where its result lies."""
    work, shard, settings, path = job
    table = work(shard, **settings)
    return path.stem, keep(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))


def _on_ray(jobs: Sequence[_Job], gpus: float) -> Iterator[tuple[str, Path]]:
    """Run the shards as Ray tasks, a bounded number at a time; one failed shard stops the map."""
    with ray_session() as look:
        import ray

        task = ray.remote(max_retries=RETRIES, num_cpus=1, num_gpus=gpus)(_run_shard)
        most = PER_CORE * max(1, int(ray.cluster_resources().get("CPU", 1)))
        left = iter(jobs)
        waiting: dict[Any, _Job] = {}
        while True:
            waiting |= {task.remote(job): job for job in itertools.islice(left, most - len(waiting))}
            if not waiting:
                return
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=LOOK)
            look()
            for reference in done:
                yield _result(reference, waiting.pop(reference))


def _result(reference: Any, job: _Job) -> tuple[str, Path]:
    """Return the result of a task that has ended, or raise the error that it ended with."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        found: tuple[str, Path] = ray.get(reference)
    except RayTaskError as error:
        raise error.cause from error  # itself: a copy of Ray's lacks what an OSError knows of file and reason
    except RayError as error:  # a worker or node died, or ran out of memory
        raise ResourceError(
            f"The worker of shard {job[-1].stem} died ({type(error).__name__}), after {RETRIES} retries. "
            f"It may have run out of memory: use smaller shards. Done shards are kept; run `dvc repro` to go on."
        ) from error
    return found


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
    again: Callable[[dict[str, Any]], bool] = lambda result: False,
    plan: Callable[[dict[str, Any], str], Any] | None = None,
) -> list[dict[str, Any]]:
    """Return the result of ``trial`` at each point of a grid, in the grid's order.

    On Ray the grid is a Ray Tune experiment named ``title``. A finished trial's result is kept
    as JSON beside its scratch folder, by the same hash as a shard's, with the hashes of the files
    in it: where one of them is not whole, the trial is run again. A trial whose driver or
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
        again: says of a result that it is not to be kept: the next call runs that trial again.
        plan: called here with point and scratch folder of each trial that is to be run, before it is; what it returns is
            the trial's argument ``planned``, and no part of its key. A tracked run is made so: of two hosts each would
            make one.

    Raises:
        ResourceError: a trial failed; the message holds its error. Or Ray was killed. Finished trials are kept.
    """
    folder = _folder(folder)
    base = (trial.__qualname__, dict(settings), list(inputs))
    names = [fingerprint(trial.__module__, *base, dict(point)) for point in points]
    done = _finished(folder, {*names})
    todo = {name: dict(point) for name, point in zip(names, points, strict=True) if name not in done}
    jobs = [(point, str(folder / name)) for name, point in todo.items()]

    def planned(point: dict[str, Any], scratch: str) -> dict[str, Any]:
        return {"planned": plan(point, scratch)} if plan else {}

    if executor == "inline":
        for point, scratch in tqdm(jobs, desc=title, unit="trial", disable=None):
            _run_trial(trial, point, scratch, {**settings, **planned(point, scratch)})
    elif jobs:
        for name in todo:
            check(folder / name)  # here, since nobody sees what a worker says
        each = {scratch: {**settings, **planned(point, scratch)} for point, scratch in jobs}
        _run_on_tune(trial, jobs, each, folder, title, gpus)
    done |= _finished(folder, {*todo})
    for result, path in done.values():
        if again(result):
            path.unlink(missing_ok=True)
    if lost := {*names} - {*done}:
        raise ResourceError(
            f"Results of {len(lost)} of {len({*names})} trials of {title!r} in {str(folder)!r} were changed or removed "
            f"before they were read. Does another process work in that folder? Wait for it, then run this again."
        )
    return [done[name][0] for name in names]


def _finished(folder: Path, names: Collection[str]) -> dict[str, tuple[dict[str, Any], Path]]:
    """Return name -> (result, its file) of the trials that are done, with all that they wrote."""
    found = {}
    for name, path in kept(folder, ".json", names).items():
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["files"] == hashes(folder / name):
            found[name] = content["result"], path
        else:
            discard(path, f"files in {str(folder / name)!r} are not as they were written with it")
    return found


def _run_trial(
    trial: Callable[..., dict[str, Any]], point: dict[str, Any], scratch: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """Run one trial and keep its result."""
    place = Path(scratch)
    if place.is_file():
        discard(place, "it is a file where a trial's folder belongs")
    place.mkdir(parents=True, exist_ok=True)
    result = trial(point, scratch, **settings)
    text = json.dumps({"result": result, "files": hashes(place)}, sort_keys=True)
    keep(place.with_suffix(".json"), lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return result


def _run_on_tune(
    trial: Callable[..., dict[str, Any]],
    jobs: Sequence[tuple[dict[str, Any], str]],
    settings: Mapping[str, dict[str, Any]],
    folder: Path,
    title: str,
    gpus: float,
) -> None:
    """Run the jobs as one Ray Tune experiment, each with the settings of its scratch folder.

    The first error is raised after all have ended.
    """
    with ray_session() as look:
        from ray import tune

        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # tracebacks; what they mean is said below

        class Watch(tune.Callback):  # type: ignore[misc]
            """Looks at each turn of Tune's loop whether Ray still runs; says which trials start again."""

            def on_step_begin(self, **info: Any) -> None:
                look()

            def on_trial_recover(self, *, trial: Any, **info: Any) -> None:
                point, _ = trial.config["job"]
                print(
                    f"\nThe worker of trial {point} died; the trial goes on from what it left.",
                    file=sys.stderr,
                )

        def trainable(config: dict[str, Any]) -> None:
            point, scratch = config["job"]
            try:
                result = _run_trial(trial, point, scratch, settings[scratch])
            except Exception as error:  # noqa: BLE001 - the driver raises it: Tune would only try again
                said = blamed(error, [scratch]) or f"{type(error).__name__}: {error}"
                tune.report({"error": said})
            else:
                tune.report({k: v for k, v in result.items() if isinstance(v, int | float)} | {"error": ""})

        grid = tune.Tuner(
            tune.with_resources(trainable, {"cpu": 1, "gpu": gpus}),
            param_space={"job": tune.grid_search(list(jobs))},
            # A trial is a function of its arguments alone: the next one needs no process of its own, which would
            # import torch again.
            tune_config=tune.TuneConfig(reuse_actors=True),
            run_config=tune.RunConfig(
                name=title,
                storage_path=str(folder / "tune"),
                verbose=int(sys.stdout.isatty()),
                progress_reporter=tune.CLIReporter(max_report_frequency=30),
                callbacks=[Watch()],
                failure_config=tune.FailureConfig(max_failures=RETRIES),  # of workers that died
            ),
        ).fit()
    missing = len(jobs) - len(kept(folder, ".json", {Path(scratch).name for _, scratch in jobs}))
    if missing:
        said = [result.metrics["error"] for result in grid if result.metrics and result.metrics.get("error")]
        said += [str(error).strip().rpartition("\n")[2] for error in grid.errors]
        raise ResourceError(
            f"{missing} of {len(jobs)} trials of {title!r} failed; the first said: "
            f"{(said or ['the experiment was interrupted'])[0]}\n"
            f"Finished trials are kept in {folder}; run `dvc repro` to go on."
        )


def threaded(function: Callable[[Shard], Result], items: Sequence[Shard]) -> list[Result]:
    """Return the function of each item, in threads of this process: for work that releases the interpreter.

    Reading, decoding and resizing images do.
    """
    workers = min(16, os.cpu_count() or 1)
    if workers == 1 or len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))
