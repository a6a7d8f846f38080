"""The history of runs, copied from one tracking store to another: ``caramel tracking copy``.

MLflow's own ``migrate-filestore`` moves only stores of plain files, and mlflow-export-import writes everything to a disk
first and makes each run anew when it is called again. Here a copied run is tagged with the id that it had where it was
first tracked, and with a hash of what it held: a second call finds it, and adds what it lacks.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from tqdm import tqdm

from caramel.errors import CaramelError, ConfigError, DataError, ResourceError
from caramel.running.tracking import PARENT, PARENT_OF
from caramel.running.tracking_calls import again, clearly, one_run
from caramel.running.tracking_server import meaning, require_server, server_at
from caramel.running.tracking_store import DATABASE, EXPERIMENT, open_client, store_in
from caramel.storage.volumes import blamed

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

ORIGIN, STATE = (
    "caramel.origin",
    "caramel.copied",
)  # tags of a copy: the id of the first run, the hash of what was copied
PAGE = 200  # runs in one answer


class Copied(NamedTuple):
    """What a call did."""

    runs: int  # that were there to copy
    made: int  # that the other store did not have
    mended: int  # that lacked something there
    lost: list[str]  # places of artifacts that are not there, or outside of the folder that is copied


def copy_history(source: str, target: str) -> Copied:
    """Copy experiments and their runs, with parameters, metrics, tags, inputs and artifacts, where the target lacks them.

    Deleted runs and experiments are left out, and so are registered models, traces and what else MLflow keeps. A run has
    another id in the target; its key stays, so that a run that goes on goes on there. What the target has is never removed,
    and of a parameter that differs the target's stays.

    Args:
        source, target: folders with MLflow's SQLite store (``mlruns``), that of the target made where there is none; or
            addresses of servers or databases.

    Raises:
        ConfigError: an address is none, or a server refuses this user; or source and target are one.
        DataError: a store is missing, empty or broken.
        ResourceError: a server does not answer, or a volume is full or read-only.
    """
    if not _is_address(source) and not Path(source, DATABASE).is_file():
        raise DataError(
            f"There is no store of runs to copy in {source!r}: it has no {DATABASE}. Give an mlruns/ folder."
        )
    uris = [_uri(place) for place in (source, target)]
    if uris[0] == uris[1]:
        raise ConfigError(f"{source!r} and {target!r} are the same store. Give two.")
    with clearly(lambda error: _meant(error, source, target)):
        return _copy(uris[0], uris[1], None if _is_address(source) else Path(source).resolve())


def _copy(source: str, target: str, folder: Path | None) -> Copied:
    """Copy from one URI to another; ``folder`` is that of the source, if it is one, and all artifacts lie in it."""
    theirs, ours = open_client(source), open_client(target)
    runs = made = mended = 0
    lost: list[str] = []
    with tqdm(desc="copy", unit="run", disable=None) as bar:
        for experiment in _all(theirs.search_experiments):
            # A run that was taken up at a later commit has a parent that is younger than itself.
            found = sorted(
                _runs(theirs, experiment.experiment_id), key=lambda run: PARENT_OF not in run.data.tags
            )
            bar.total = (bar.total or 0) + len(found)
            place = _experiment(ours, experiment) if found else ""
            there = {_origin(run): run for run in _runs(ours, place)} if found else {}
            whole = _has_artifacts(experiment.artifact_location, folder)
            ids: dict[str, str] = {}  # of a run in the source -> in the target
            for run in found:
                known = there.get(_origin(run))
                if known is None or not _is_copied(run, known):
                    made, mended = made + (known is None), mended + (known is not None)
                    here = whole and _is_inside(run.info.artifact_uri, folder)
                    parent = ids.get(run.data.tags.get(PARENT, ""))
                    ids[run.info.run_id] = _copy_run(theirs, ours, run, known, place, parent, whole=here)
                else:
                    ids[run.info.run_id] = known.info.run_id
                bar.update()
            runs += len(found)
            if found and not whole:
                lost.append(experiment.artifact_location)
    return Copied(runs, made, mended, lost)


def _is_address(place: str) -> bool:
    return "://" in place


def _uri(place: str) -> str:
    """Return what MLflow opens a store by, after a look whether it is there."""
    if _is_address(place):
        require_server(place)
        return place
    return store_in(Path(place))


def _all(search: Callable[..., Any], **wanted: Any) -> Iterator[Any]:
    """Yield what a search finds, page by page."""
    token = None
    while True:
        page = search(max_results=PAGE, page_token=token, **wanted)
        yield from page
        token = page.token
        if not token:
            return


def _runs(client: MlflowClient, experiment: str) -> Iterator[Run]:
    """Yield the runs of an experiment, from the first on."""
    return _all(client.search_runs, experiment_ids=[experiment], order_by=["attributes.start_time ASC"])


def _origin(run: Run) -> str:
    return str(run.data.tags.get(ORIGIN, run.info.run_id))


def _state(run: Run) -> str:
    """Return a hash of what a search tells of a run: what is logged to it later changes that."""
    metrics = sorted((m.key, m.value, m.timestamp, m.step) for m in run.data._metric_objs)
    tags = {key: value for key, value in run.data.tags.items() if key not in (ORIGIN, STATE, PARENT)}
    said = [
        run.info.status,
        run.info.end_time,
        metrics,
        run.data.params,
        tags,
        len(run.inputs.dataset_inputs),
    ]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _is_copied(run: Run, known: Run) -> bool:
    """Return whether the target's run has all of the source's; known may be the one that the source's is a copy of."""
    state = _state(run)
    return state == known.data.tags.get(STATE) or (ORIGIN not in known.data.tags and state == _state(known))


def _has_artifacts(place: str, folder: Path | None) -> bool:
    """Return whether the folder of an experiment's artifacts is there; a server or S3 is not asked."""
    parts = urlsplit(place)
    local = parts.scheme in ("", "file")
    return not local or (Path(unquote(parts.path)).is_dir() and _is_inside(place, folder))


def _is_inside(place: str, folder: Path | None) -> bool:
    """Return whether artifacts lie in the folder that is copied: a store that others made may name any file here."""
    parts = urlsplit(place)
    if folder is None:
        return True
    return parts.scheme in ("", "file") and Path(unquote(parts.path)).resolve().is_relative_to(folder)


def _meant(error: Exception, source: str, target: str) -> CaramelError:
    """Return what an error of one of the stores means to who copies."""
    for address in filter(_is_address, (source, target)):
        if server_at(address) and address in str(error) and (found := meaning(error, address)):
            return found
    said = blamed(error, [Path(place) for place in (source, target) if not _is_address(place)])
    if said is not None:
        return ResourceError(f"The runs of {source!r} cannot be copied to {target!r}: {said}")
    text = " ".join(str(error).split())[:300]
    return DataError(f"The runs of {source!r} cannot be copied to {target!r}: {text}")


def _experiment(client: MlflowClient, experiment: Experiment) -> str:
    """Return the id of the experiment of that name in the target, making it there."""

    def make() -> str:
        found = client.get_experiment_by_name(experiment.name)
        if found is None:
            return str(client.create_experiment(experiment.name, _place(client), experiment.tags))
        if found.lifecycle_stage != "active":
            raise ConfigError(
                f"The experiment {experiment.name!r} was deleted in the store that is copied to. Put it back: `mlflow "
                f"experiments restore --experiment-id {found.experiment_id}`."
            )
        return str(found.experiment_id)

    return again(make)


def _place(client: MlflowClient) -> str | None:
    """Return where artifacts of a new experiment go: beside those of the others in a folder; a server knows."""
    ours = client.get_experiment_by_name(EXPERIMENT)
    return ours.artifact_location if ours and ours.artifact_location.startswith("file:") else None


def _copy_run(
    theirs: MlflowClient,
    ours: MlflowClient,
    run: Run,
    known: Run | None,
    experiment: str,
    parent: str | None,
    *,
    whole: bool,
) -> str:
    """Copy a run, under the parent that is given, or what its copy lacks; that it is whole is written last. Return its id."""
    from mlflow.entities import Metric, Param, RunTag

    tags = {key: value for key, value in run.data.tags.items() if key not in (ORIGIN, STATE, PARENT)}
    tags |= {PARENT: parent} if parent else {}
    if known is None:
        origin, (start, title) = _origin(run), (run.info.start_time, run.info.run_name)

        def create() -> None:
            ours.create_run(experiment, start, {**tags, ORIGIN: origin}, title)

        known = ours.get_run(one_run(ours, experiment, ORIGIN, origin, create))
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
        again(lambda: ours.log_inputs(name, datasets=run.inputs.dataset_inputs))
    if whole:
        _copy_artifacts(theirs, ours, run.info.run_id, name)
    if run.info.end_time is not None:
        ours.set_terminated(name, run.info.status, run.info.end_time)
    else:
        ours.update_run(name, status=run.info.status)
    if whole:
        ours.set_tag(name, STATE, _state(run))
    return str(name)


def _copy_artifacts(theirs: MlflowClient, ours: MlflowClient, run: str, copy: str) -> None:
    """Copy the files of a run that its copy lacks, or has in another length."""
    files = dict(_files(theirs, run))
    have = dict(_files(ours, copy)) if files else {}
    for path, size in files.items():
        if have.get(path) != size:
            with tempfile.TemporaryDirectory() as folder:
                local = theirs.download_artifacts(run, path, folder)
                ours.log_artifact(copy, local, str(Path(path).parent) if "/" in path else None)


def _files(client: MlflowClient, run: str, folder: str | None = None) -> Iterator[tuple[str, int]]:
    """Yield path and length of each file of a run."""
    for entry in client.list_artifacts(run, folder):
        if entry.is_dir:
            yield from _files(client, run, entry.path)
        else:
            yield entry.path, entry.file_size
