"""Copy the history of runs from one tracking store to another: ``caramel tracking copy``.

MLflow's own ``migrate-filestore`` moves only stores of plain files. mlflow-export-import writes everything to
disk first, and creates each run anew when it is called again. Here a copied run has two tags: the id that it
had in its first store, and a hash of its content. So a second call finds it, and adds what is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tqdm import tqdm

from caramel.errors import CaramelError, ConfigError, DataError, ResourceError, redact_secrets
from caramel.io.disk_space import explain_disk_error
from caramel.runtime.mlflow.artifacts import copy_artifacts, find_local_folder
from caramel.runtime.mlflow.killed_runs import ENDED, PROCESS
from caramel.runtime.mlflow.retry import (
    get_or_create_run,
    iter_pages,
    require_id,
    retry_on_race,
    translate_errors,
)
from caramel.runtime.mlflow.server import explain_error, require_server
from caramel.runtime.mlflow.store import DATABASE, EXPERIMENT, get_store_uri, open_client
from caramel.runtime.mlflow.tracking import PARENT, PARENT_OF

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

ORIGIN, STATE = (
    "caramel.origin",
    "caramel.copied",
)  # tags of a copy: the id of the first run, the hash of what was copied

# Tags that a copy does not get from its original, or gets changed. No process works on a copy.
NOT_COPIED = (ORIGIN, STATE, PARENT, PROCESS, ENDED)


class CopySummary(NamedTuple):
    """The result of a copy."""

    runs: int  # runs in the source
    created: int  # runs that the target did not have
    mended: int  # runs that were incomplete in the target
    lost: list[str]  # locations of artifacts that are missing, or outside the copied folder
    unread: list[str]  # files of artifacts that cannot be read, with the reason


def copy_history(source: str, target: str) -> CopySummary:
    """Copy the experiments and runs that the target lacks: parameters, metrics, tags, inputs, artifacts.

    Deleted runs and experiments, registered models, traces and other data of MLflow are not copied. A run has
    another id in the target. It keeps its key, so that a resumed run continues there. Nothing is ever removed
    from the target, and if a parameter differs, the target's value is kept.

    Args:
        source, target: folders with MLflow's SQLite store (``mlruns``), or addresses of servers or databases.
            The target's folder is created if needed.

    Raises:
        ConfigError: an address is invalid, a server refuses this user, or source and target are the same.
        DataError: a store is missing, empty or broken.
        ResourceError: a server does not answer, or a volume is full or read-only.
    """
    uris = [resolve_source(source), _resolve_uri(target)]
    if uris[0] == uris[1]:
        raise ConfigError(f"{source!r} and {target!r} are the same store. Give two.")
    with translate_errors(lambda error: explain_copy_error(error, source, target)):
        return _copy_store(uris[0], uris[1], None if _is_address(source) else Path(source).resolve())


def _copy_store(source: str, target: str, folder: Path | None) -> CopySummary:
    """Copy from one URI to another.

    ``folder`` is the source's folder, if it has one, which holds all artifacts.
    """
    theirs, ours = open_client(source), open_client(target)
    runs = created = mended = 0
    lost: list[str] = []
    unread: list[str] = []
    with tqdm(desc="copy", unit="run", disable=None) as bar:
        for experiment in iter_pages(theirs.search_experiments):
            # A run that was resumed at a later commit has a parent that is younger than itself.
            source_runs = sorted(
                iter_runs(theirs, experiment.experiment_id), key=lambda run: PARENT_OF not in run.data.tags
            )
            bar.total = (bar.total or 0) + len(source_runs)
            experiment_id = _ensure_experiment(ours, experiment) if source_runs else ""
            target_runs = (
                {get_origin(run): run for run in iter_runs(ours, experiment_id)} if source_runs else {}
            )
            whole = _has_artifacts(experiment.artifact_location, folder)
            ids: dict[str, str] = {}  # run id in the source -> in the target
            for run in source_runs:
                known = target_runs.get(get_origin(run))
                if known is None or not _is_copied(run, known):
                    created, mended = created + (known is None), mended + (known is not None)
                    here = whole and _is_inside(run.info.artifact_uri, folder)
                    parent = ids.get(run.data.tags.get(PARENT, ""))
                    inside = folder if here else None
                    ids[run.info.run_id], left = _copy_run(
                        theirs, ours, run, known, experiment_id, parent, inside, whole=here
                    )
                    unread += left
                else:
                    ids[run.info.run_id] = known.info.run_id
                bar.update()
            runs += len(source_runs)
            if source_runs and not whole:
                lost.append(experiment.artifact_location)
    return CopySummary(runs, created, mended, lost, unread)


def _is_address(location: str) -> bool:
    return "://" in location


def resolve_source(source: str) -> str:
    """Return the URI of a folder's store, or of a server, that exists.

    Raises:
        ConfigError, DataError, ResourceError: as in ``copy_history``.
    """
    if not _is_address(source) and not Path(source, DATABASE).is_file():
        raise DataError(
            f"There is no store of runs to copy in {source!r}: it has no {DATABASE}. Give an mlruns/ folder."
        )
    return _resolve_uri(source)


def _resolve_uri(location: str) -> str:
    """Return the URI by which MLflow opens a store, after checking that the store exists."""
    if _is_address(location):
        require_server(location)
        return location
    return get_store_uri(Path(location))


def iter_runs(client: MlflowClient, experiment: str) -> Iterator[Run]:
    """Yield the runs of an experiment, oldest first."""
    order = ["attributes.start_time ASC"]
    return iter_pages(client.search_runs, experiment_ids=[experiment], order_by=order)


def get_origin(run: Run) -> str:
    """Return the id that a run had in its first store."""
    return str(run.data.tags.get(ORIGIN, run.info.run_id))


def _hash_state(run: Run) -> str:
    """Return a hash of what a search returns for a run; it changes when more is logged to the run."""
    metrics = sorted((m.key, m.value, m.timestamp, m.step) for m in run.data._metric_objs)
    tags = {key: value for key, value in run.data.tags.items() if key not in NOT_COPIED}
    content = [
        run.info.status,
        run.info.end_time,
        metrics,
        run.data.params,
        tags,
        len(run.inputs.dataset_inputs),
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def _is_copied(run: Run, known: Run) -> bool:
    """Return whether the target's run is complete. It may also be the run of which the source's is a copy."""
    state = _hash_state(run)
    return state == known.data.tags.get(STATE) or (
        ORIGIN not in known.data.tags and state == _hash_state(known)
    )


def _has_artifacts(uri: str, folder: Path | None) -> bool:
    """Return whether the folder of an experiment's artifacts exists; a server or S3 is not queried."""
    local = find_local_folder(uri)
    return local is None or (local.is_dir() and _is_inside(uri, folder))


def _is_inside(uri: str, folder: Path | None) -> bool:
    """Return whether artifacts are in the copied folder.

    A store by others may name any file of this machine.
    """
    if folder is None:
        return True
    local = find_local_folder(uri)
    return local is not None and Path(os.path.realpath(local)).is_relative_to(folder)


def explain_copy_error(error: Exception, source: str, target: str) -> CaramelError:
    """Return what an error of one of the stores means for the user."""
    addresses = [address for address in (source, target) if address.startswith(("http:", "https:"))]
    named = [address for address in addresses if address.rstrip("/") in str(error)]
    for address in named or (addresses if len(addresses) == 1 else []):
        if user_error := explain_error(error, address):
            return user_error
    message = explain_disk_error(
        error, [Path(location) for location in (source, target) if not _is_address(location)]
    )
    if message is not None:
        return ResourceError(f"The runs of {source!r} cannot be copied to {target!r}: {message}")
    text = " ".join(redact_secrets(str(error)).split())[:300]
    return DataError(f"The runs of {source!r} cannot be copied to {target!r}: {text}")


def _ensure_experiment(client: MlflowClient, experiment: Experiment) -> str:
    """Return the id of the experiment of that name in the target, creating it if needed."""

    def get_or_create() -> str:
        existing = client.get_experiment_by_name(experiment.name)
        if existing is None:
            new_id = client.create_experiment(
                experiment.name, _get_artifact_location(client), experiment.tags
            )
            return require_id(new_id, "a new experiment")
        require_id(existing.experiment_id, f"the experiment {experiment.name!r}")
        if existing.lifecycle_stage != "active":
            raise ConfigError(
                f"The experiment {experiment.name!r} was deleted in the target store. Restore it: `mlflow "
                f"experiments restore --experiment-id {existing.experiment_id}`."
            )
        return str(existing.experiment_id)

    return retry_on_race(get_or_create)


def _get_artifact_location(client: MlflowClient) -> str | None:
    """Return where a new experiment's artifacts go: beside the others in a folder; a server chooses itself."""
    ours = client.get_experiment_by_name(EXPERIMENT)
    return ours.artifact_location if ours and ours.artifact_location.startswith("file:") else None


def _copy_run(
    theirs: MlflowClient,
    ours: MlflowClient,
    run: Run,
    known: Run | None,
    experiment: str,
    parent: str | None,
    folder: Path | None,
    *,
    whole: bool,
) -> tuple[str, list[str]]:
    """Copy a run under a given parent, or what its copy lacks.

    The tag that marks it complete is written last.

    Return the run's id, and its files that cannot be read.
    """
    from mlflow.entities import Metric, Param, RunTag

    tags = {key: value for key, value in run.data.tags.items() if key not in NOT_COPIED}
    tags |= {PARENT: parent} if parent else {}
    if known is None:
        origin, (start, title) = get_origin(run), (run.info.start_time, run.info.run_name)

        def create_copy() -> None:
            ours.create_run(experiment, start, {**tags, ORIGIN: origin}, title)

        known = ours.get_run(get_or_create_run(ours, experiment, ORIGIN, origin, create_copy))
    name = known.info.run_id
    params = [Param(key, value) for key, value in run.data.params.items() if key not in known.data.params]
    ours.log_batch(name, params=params, tags=[RunTag(key, value) for key, value in tags.items()])
    for key in run.data.metrics:
        have = (
            {(m.timestamp, m.step, m.value) for m in ours.get_metric_history(name, key)}
            if key in known.data.metrics
            else ()
        )
        points = [(m.timestamp, m.step, m.value) for m in theirs.get_metric_history(run.info.run_id, key)]
        new = [
            Metric(key, value, stamp, step)
            for stamp, step, value in points
            if (stamp, step, value) not in have
        ]
        if new:
            ours.log_batch(name, metrics=new)
    if run.inputs.dataset_inputs:
        retry_on_race(lambda: ours.log_inputs(name, datasets=run.inputs.dataset_inputs))
    left = copy_artifacts(theirs, ours, run, name, folder) if whole else []
    if run.info.end_time is not None:
        ours.set_terminated(name, run.info.status, run.info.end_time)
    else:
        ours.update_run(name, status=run.info.status)
    if whole and not left:
        ours.set_tag(name, STATE, _hash_state(run))
    return str(name), left
