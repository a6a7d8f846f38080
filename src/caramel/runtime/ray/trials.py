"""Run a resumable grid of trials: a Ray Tune experiment whose results this process keeps.

A trial's result is kept as JSON beside its folder, named by the same kind of hash as a shard's. It contains
the hashes of the files in that folder. A trial whose driver, worker or node died is restarted and continues
from the files in its folder. On a node other than the driver's the folder is mirrored
(``driver_files.open_mirror``).
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from caramel.errors import ConfigError, ResourceError, TrialError
from caramel.io.disk_space import explain_disk_error, find_volume_problem
from caramel.io.files import discard_results, hash_files, load_hashed, remove_damaged, save_hashed
from caramel.runtime.environment import collect_seldom, limit_threads
from caramel.runtime.mlflow.server import NAME, get_tracking_server
from caramel.runtime.ray.asha import CHECKPOINT, Halving
from caramel.runtime.ray.cluster import RETRIES, get_cluster_address, open_ray_session
from caramel.runtime.ray.driver_files import PART, call_disk, open_mirror, start_disk_actor
from caramel.runtime.ray.file_transfer import (
    CACHE,
    LocalFile,
    Parcel,
    format_as_given,
    format_source_path,
    map_instances,
    unpack_parcel,
)
from caramel.runtime.ray.node import (
    be_at_home,
    format_version_differences,
    get_node_id,
    get_node_name,
    list_versions,
)
from caramel.runtime.ray.session_health import build_session_check
from caramel.runtime.ray.sharded_map import (
    Executor,
    compute_fingerprint,
    compute_result_names,
    resolve_result_folder,
)
from caramel.runtime.ray.workers import end_workers, prepare_files

STOPPED = ".stopped"  # suffix of the last report of a trial that was stopped early


class TrialResult(NamedTuple):
    """A finished trial."""

    result: dict[str, Any]  # of a trial that ``halving`` stopped: {"stopped": its last report}
    folder: Path  # its files


def tune_grid(
    trial: Callable[..., dict[str, Any]],
    points: Sequence[Mapping[str, Any]],
    *,
    settings: Mapping[str, Any],
    folder: str | Path,
    executor: Executor,
    title: str,
    cpus: int = 1,
    gpus: float = 0.0,
    should_rerun: Callable[[dict[str, Any]], bool] = lambda result: False,
    plan: Callable[[dict[str, Any], str], dict[str, Any]] = lambda point, name: {},
    halving: Halving | None = None,
) -> list[TrialResult]:
    """Run ``trial`` at each point of a grid, and return its results and files in the grid's order.

    Args:
        trial: top-level function ``trial(point, scratch, **settings)`` that returns JSON-like
            results; ``scratch`` is its own folder, which survives a crash.
        points: JSON-like points of the grid.
        settings: JSON-like keyword arguments of ``trial``, the same for all points; files are ``LocalFile``.
        folder: folder of the trials' folders and results.
        executor: ``inline`` runs in this process, ``ray`` as a Ray Tune experiment.
        title: name of the experiment.
        cpus, gpus: CPU cores and GPUs per trial, on one machine.
        should_rerun: result -> whether to discard it: the next call runs that trial again.
        plan: called here with the point and name of each trial before it runs. It returns further keyword
            arguments of the trial, which are not part of its key. It creates the tracked run, because
            otherwise each of two hosts would create one.
        halving: stops trials that do worse than others; they call ``asha.report_checkpoint``. A stopped trial
            is resumed if it occurs in another grid, or in one without halving.

    Raises:
        ConfigError: no machine has enough CPU cores, or ``halving`` is used without Ray.
        ResourceError: a trial failed (the message has its error), or Ray was killed. Finished trials are
            kept.
    """
    folder = resolve_result_folder(folder)
    names = compute_result_names(trial, settings, [dict(point) for point in points])
    done = _load_finished(folder, {*names})
    grid_key = ""
    if halving:
        _require_ray(executor)
        grid_key = compute_fingerprint(__name__, list(halving), names)
        done |= {n: entry for n, entry in _load_stopped(folder, {*names}, grid_key).items() if n not in done}
    todo = {name: dict(point) for name, point in zip(names, points, strict=True) if name not in done}
    trial_settings = {n: {**settings, **plan(point, n)} for n, point in todo.items()}
    if executor == "inline":
        for name, point in tqdm(todo.items(), desc=title, unit="trial", disable=None):
            placed = map_instances(trial_settings[name], LocalFile, format_as_given)
            _save_result(folder / name, _run_trial(trial, point, folder / name, placed))
    elif todo:
        for name in todo:
            remove_damaged(folder / name)  # here, because nobody sees the output of a worker
        _run_on_tune(
            trial, todo, trial_settings, folder, title, {"cpu": cpus, "gpu": gpus}, halving, grid_key
        )
    done |= {
        **(_load_stopped(folder, {*todo}, grid_key) if halving else {}),
        **_load_finished(folder, {*todo}),
    }
    for result, path in done.values():
        if should_rerun(result):
            path.unlink(missing_ok=True)
    if lost := {*names} - {*done}:
        raise ResourceError(
            f"Results of {len(lost)} of {len({*names})} trials of {title!r} in {str(folder)!r} were changed or removed "
            f"before they were read. Does another process work in that folder? Wait for it, then run this again."
        )
    return [TrialResult(done[name][0], folder / name) for name in names]


def select_executors(executor: Executor, trials: int) -> tuple[Executor, Executor]:
    """Return where trials and the shards inside them run: both on Ray would wait for each other's cores.

    Several trials share this machine. A single trial, or each of several on a cluster without a shared disk,
    distributes its own shards.
    """
    if executor == "ray" and trials > 1 and not get_cluster_address():
        return "ray", "inline"
    return "inline", executor


def count_at_once(gpus: float) -> int:
    """Return how many trials run at the same time on this machine, with one core and this many GPUs each."""
    if not gpus:
        return os.cpu_count() or 1
    import torch

    return max(1, int(torch.cuda.device_count() / gpus))


def _load_finished(folder: Path, names: Collection[str]) -> dict[str, tuple[dict[str, Any], Path]]:
    """Return (result, its file) of each finished trial whose files are intact, by name."""
    results = {}
    for name, path in load_hashed(folder, ".json", names).items():
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["files"] == hash_files(folder / name):
            results[name] = content["result"], path
        else:
            discard_results(path, f"files in {str(folder / name)!r} are not as they were written with it")
    return results


def _load_stopped(
    folder: Path, names: Collection[str], grid_key: str
) -> dict[str, tuple[dict[str, Any], Path]]:
    """Return (result, its file) of each trial that was stopped early within this grid, by name."""
    paths = load_hashed(folder, STOPPED, {f"{name}-{grid_key}" for name in names})
    return {
        name.rpartition("-")[0]: (json.loads(path.read_text(encoding="utf-8")), path)
        for name, path in paths.items()
    }


def _require_ray(executor: Executor) -> None:
    if executor == "inline":
        raise ConfigError(
            "Trials are to end early where others do better (asha), and run.executor: inline runs one after the other. Take "
            "run.executor: ray, or asha: null."
        )


def _run_trial(
    trial: Callable[..., dict[str, Any]], point: Mapping[str, Any], folder: Path, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Run one trial in its folder; return its result and the hashes of its files."""
    if folder.is_file():
        discard_results(folder, "it is a file where a trial's folder belongs")
    folder.mkdir(parents=True, exist_ok=True)
    result = trial(dict(point), str(folder), **settings)
    return {"result": result, "files": hash_files(folder)}


def _save_result(folder: Path, content: Mapping[str, Any], suffix: str = ".json") -> None:
    """Save the output of ``_run_trial``, or the last report of a stopped trial, beside its folder."""
    text = json.dumps(content, sort_keys=True)
    save_hashed(folder.with_suffix(suffix), lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _run_on_tune(
    trial: Callable[..., dict[str, Any]],
    points: Mapping[str, dict[str, Any]],
    settings: Mapping[str, dict[str, Any]],
    folder: Path,
    title: str,
    needs: Mapping[str, float],
    halving: Halving | None,
    grid_key: str,
) -> None:
    """Run the points as one Ray Tune experiment, each with its settings, and save each finished result.

    The first error is raised after all trials have ended, or at once if nothing more can be written in the
    folder.
    """
    with open_ray_session() as check_session:
        from ray import tune
        from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback

        end_workers()
        _require_room(needs)
        if any("planned" in trial_settings for trial_settings in settings.values()):
            _require_tracking()
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # tracebacks; the errors are explained below
        for part in folder.glob(f".*{PART}"):  # incomplete files from a node that died
            part.unlink(missing_ok=True)
        given = {name: prepare_files(trial_settings) for name, trial_settings in settings.items()}
        where = Driver.from_this_node()
        default_metrics = {halving.metric: 0.0} if halving else {}  # in each report, also without a scheduler

        def trainable(config: dict[str, Any]) -> None:
            name = config["name"]
            try:
                outcome = _run_on_node(trial, config["point"], folder / name, given[name], where)
            except Exception as error:  # noqa: BLE001 - the driver raises it: Tune would only retry
                tune.report({**default_metrics, "error": _format_error(error, folder / name)})
            else:
                metrics = {k: v for k, v in outcome["result"].items() if isinstance(v, int | float)}
                tune.report({**default_metrics, **metrics, "found": json.dumps(outcome), "error": ""})

        watch, unkept = _build_callback(folder, check_session, halving, grid_key)
        tuner = tune.Tuner(
            tune.with_resources(trainable, dict(needs)),
            param_space=tune.grid_search([{"name": name, "point": point} for name, point in points.items()]),
            # A trial depends only on its arguments, so the next one can reuse the process, which would
            # otherwise import torch again.
            tune_config=tune.TuneConfig(
                reuse_actors=True, scheduler=halving.build_scheduler() if halving else None
            ),
            run_config=tune.RunConfig(
                name=title,
                storage_path=str(folder / "tune"),
                verbose=int(sys.stdout.isatty()),
                progress_reporter=tune.CLIReporter(max_report_frequency=30),
                callbacks=[watch, CSVLoggerCallback(), JsonLoggerCallback()],
                failure_config=tune.FailureConfig(max_failures=RETRIES),  # for workers that died
            ),
        )
        try:
            grid = tuner.fit()
        except Exception:
            if unkept:  # Tune's own error is a traceback of it
                raise unkept[0] from None
            build_session_check()()  # Tune's own error may only be that a file of a broken session is gone
            raise
    ended = _load_stopped(folder, {*points}, grid_key) if halving else {}
    missing = len(points) - len({*load_hashed(folder, ".json", points), *ended})
    if missing:
        messages = [
            result.metrics["error"] for result in grid if result.metrics and result.metrics.get("error")
        ]
        messages += [str(error).strip().rpartition("\n")[2] for error in grid.errors]
        raise TrialError(
            f"{missing} of {len(points)} trials of {title!r} failed; the first said: "
            f"{(messages or ['the experiment was interrupted'])[0]}\n{_format_resume_hint(folder)}"
        )


def _format_resume_hint(folder: Path) -> str:
    """Return the last line of the message of a failed trial."""
    return f"Finished trials are kept in {folder}; run `dvc repro` to go on."


def _require_room(needs: Mapping[str, float]) -> None:
    """Check that some machine has room for a trial, because Tune itself would wait for one forever.

    Args:
        needs: "cpu" and "gpu" -> number.

    Raises:
        ConfigError: no machine has.
    """
    import ray

    resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for resource, name in (("cpu", "processors"), ("gpu", "GPUs")):
        most = max((has.get(resource.upper(), 0.0) for has in resources), default=0.0)
        if most < needs[resource]:
            raise ConfigError(
                f"A trial needs {needs[resource]:g} {name} of one machine, and the largest one here has {most:g}. Take fewer "
                f"finetune.nproc, less of run.gpus, or run.executor: inline."
            )


def _require_tracking() -> None:
    """Check that the runs of trials can be tracked from all nodes.

    Raises:
        ConfigError: they would go to a database on this machine's disk.
    """
    import ray

    others = [
        node["NodeManagerHostname"]
        for node in ray.nodes()
        if node["Alive"] and node["NodeID"] != get_node_id()
    ]
    if get_cluster_address() and others and not get_tracking_server():
        raise ConfigError(
            f"Trials may run on {', '.join(sorted({*others}))}, but runs are tracked in a database on this machine's disk. Name an "
            f"MLflow server with {NAME} (docs/tracking.md), or take one machine: RAY_ADDRESS=local."
        )


def _build_callback(
    folder: Path, check_session: Callable[[], None], halving: Halving | None, grid_key: str
) -> tuple[Any, list[ResourceError]]:
    """Return a Tune callback that saves reports, and the list of errors with which it ended the experiment.

    In each step of Tune's loop it checks whether Ray is still running.
    """
    from ray import tune

    unkept: list[ResourceError] = []

    def save_content(*content: Any) -> None:
        try:
            _save_result(*content)
        except ResourceError as error:
            unkept.append(error)
            raise

    class Watch(tune.Callback):  # type: ignore[misc]
        def on_step_begin(self, **info: Any) -> None:
            check_session()

        def on_trial_result(self, *, trial: Any, result: dict[str, Any], **info: Any) -> None:
            if result.get("found"):
                save_content(folder / trial.config["name"], json.loads(result["found"]))
            elif result.get("error") and find_volume_problem(
                folder
            ):  # all others would compute and then fail in the same way
                unkept.append(ResourceError(f"{result['error']}\n{_format_resume_hint(folder)}"))
                raise unkept[-1]

        def on_trial_complete(self, *, trial: Any, **info: Any) -> None:
            last = trial.last_result
            if halving and CHECKPOINT in last:  # its last report is a checkpoint, so it was stopped there
                metrics = {name: last[name] for name in (CHECKPOINT, halving.metric)}
                save_content(folder / f"{trial.config['name']}-{grid_key}", {"stopped": metrics}, STOPPED)

        def on_trial_recover(self, *, trial: Any, **info: Any) -> None:
            point = trial.config["point"]
            print(
                f"\nThe worker of trial {point} died; the trial goes on from what it left.", file=sys.stderr
            )

    return Watch(), unkept


class Driver(NamedTuple):
    """The driver's machine, for a trial on another node."""

    home: str  # id of its node
    disk: Any  # actor that reads and writes its files; None on a cluster of only this machine
    installed: dict[str, str]

    @classmethod
    def from_this_node(cls) -> Driver:
        """Return the description of this machine."""
        return cls(get_node_id(), start_disk_actor() if get_cluster_address() else None, list_versions())


def _run_on_node(
    trial: Callable[..., dict[str, Any]],
    point: Mapping[str, Any],
    folder: Path,
    settings: Mapping[str, Any],
    driver: Driver,
) -> dict[str, Any]:
    """Run one trial on this process's node: in its folder, or on another node in a mirror of it.

    Raises:
        ResourceError: the node has other versions than the driver, or the trial failed there.
    """
    away = get_node_name(driver.home)
    collect_seldom()
    limit_threads()
    if not away:
        return _run_trial(trial, point, folder, map_instances(settings, Parcel, format_source_path))
    if message := format_version_differences(away, list_versions(), driver.installed):
        raise ResourceError(message)
    be_at_home()
    fetch = partial(unpack_parcel, read=partial(call_disk, driver.disk, "read"))
    try:
        with open_mirror(str(folder), driver.disk) as mirror:
            return _run_trial(trial, point, mirror, map_instances(settings, Parcel, fetch))
    except Exception as error:
        raise ResourceError(f"On node {away}: {_format_error(error, CACHE.expanduser())}") from error


def _format_error(error: Exception, folder: Path) -> str:
    """Return the message of an error of a trial, which was writing in a folder."""
    return explain_disk_error(error, [folder]) or f"{type(error).__name__}: {error}"
