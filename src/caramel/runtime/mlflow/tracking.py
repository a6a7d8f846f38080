"""Track runs in MLflow, each with the data set version that it used.

The store is SQLite with artifacts beside it, under ``mlruns/`` of the project's root, or a server
(``server.py``). When DVC runs an experiment in a temporary folder, the store is still that of the root, but
the data version is that folder's. Any process may log: the database is created under a file lock and runs in
write-ahead mode. The driver process says what the runs are (``plan_run``), and each worker creates its run when
its work begins (``open_run``), so that the duration of a run is that of its work.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from caramel.errors import CaramelError, ConfigError, ResourceError, redact_secrets
from caramel.io.disk_space import explain_disk_error
from caramel.plugins import PLUGINS_TAG, PLUGINS_VARIABLE
from caramel.runtime.dvc.state import read_lock
from caramel.runtime.git import list_changed_files, query_git
from caramel.runtime.mlflow import killed_runs
from caramel.runtime.mlflow.retry import (
    disable_retries,
    find_runs,
    get_or_create_run,
    require_id,
    retry_on_race,
    translate_errors,
)
from caramel.runtime.mlflow.server import NAME, explain_error
from caramel.runtime.mlflow.store import (
    EXPERIMENT,
    FOLDER_SCHEME,
    explain_broken_store,
    get_store_root,
    get_tracking_uri,
    has_store,
    hold_lock,
    open_client,
)
from caramel.runtime.paths import LOCKS

if TYPE_CHECKING:
    import mlflow
    from mlflow import ActiveRun

Asked = ParamSpec("Asked")  # the arguments of ``plan_run``
KEY = "caramel.key"  # tag: hash of everything that determines a run
PARENT = "mlflow.parentRunId"  # tag: the parent run in MLflow's pages
PARENT_OF = "parent_of"  # tag of a parent run: the stage whose runs belong to it
# MLflow's pages compare trainings and evaluations of an experiment of this kind. Without a kind they show
# traces of chats.
KIND = ("mlflow.experimentKind", "custom_model_development")


def get_git_commit(workspace: Path) -> str:
    """Return the checked-out commit, with ``-dirty`` if tracked sources differ from it.

    ``dvc.lock`` and the pins do not count, because a run of the pipeline writes them itself. Without a
    repository or a commit it is ``unknown``.

    Raises:
        ResourceError: git is not installed, fails, or does not read the repository of another user.
    """
    head = query_git("rev-parse", "--verify", "--quiet", "HEAD", folder=workspace)
    if head is None:
        return "unknown"
    commit = head.decode().strip()
    return f"{commit}-dirty" if list_changed_files(workspace, ".", ":!dvc.lock", ":!pins") else commit


def get_data_versions(paths: Sequence[str], workspace: Path) -> dict[str, str]:
    """Return DVC's hash of each output that is one of the paths or holds one, from ``dvc.lock``.

    Paths that DVC does not track are left out.

    Raises:
        DataError: ``dvc.lock`` is broken.
    """
    if not paths:
        return {}
    stages = read_lock(workspace).get("stages", {}).values()
    outs = {out["path"]: out["md5"] for stage in stages for out in stage.get("outs", ())}
    holders = [{path, *(str(parent) for parent in Path(path).parents)} for path in paths]
    return {out: digest for out, digest in outs.items() if any(out in names for names in holders)}


DIGEST = 36  # characters of an output's hash that MLflow stores for an input


@dataclass(frozen=True)
class PlannedRun:
    """What is known of a run before its work begins; it can be opened in any process, perhaps on another machine."""

    name: str
    key: str  # hash of everything that determines the run
    uri: str
    root: str  # folder that holds mlruns/, if that is the store
    experiment: str  # its id
    context: Mapping[str, str]  # tags of a new run: user, program, commit
    tags: Mapping[str, str]  # tags that are also renewed on a run that is resumed
    params: Mapping[str, str]
    inputs: Mapping[str, str]  # DVC's hash by path


def plan_run(
    name: str,
    *,
    key: str,
    params: Mapping[str, Any],
    data: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    root: str | Path | None = None,
) -> PlannedRun:
    """Collect everything known of the MLflow run of ``key`` so far; ``open_run`` creates or finds it.

    The experiment and a stage's parent run are created if needed.

    Args:
        name: readable name of the run.
        key: hash of everything that determines the run; one run per key.
        params: parameters to log; nested values are logged as text.
        data: DVC paths that the run reads; logged as inputs with their DVC hash.
        tags: further tags. In a stage run by DVC, a run without a parent gets the stage's run in this
            experiment of DVC, or at this commit, as parent. A run that is resumed at a later commit moves
            there.
        root: folder that holds ``mlruns/``; None: that of this project. It may differ from the working folder,
            whose sources and ``dvc.lock`` are those of the run, because ``dvc exp run --temp`` has its own.

    Raises:
        ConfigError: the server refuses this user, or the experiment was deleted there.
        DataError: the store or ``dvc.lock`` is empty or broken.
        ResourceError: the server does not answer, git fails (``get_git_commit``), the volume of ``mlruns/``
            is full or read-only, or another process holds a lock for long.
    """
    root, workspace = Path(root) if root else get_store_root(), Path()
    uri = get_tracking_uri(root)
    with translate_errors(lambda error: _explain_error(error, name, uri, root)):
        commit = get_git_commit(workspace)
        known = {"git.commit": commit, **(tags or {})}
        if experiment_of_dvc := os.environ.get("DVC_EXP_NAME"):  # `dvc exp run` sets it
            known["dvc.experiment"] = experiment_of_dvc
        if plugins := os.environ.get(PLUGINS_VARIABLE):  # a stage sets it
            known.setdefault(PLUGINS_TAG, plugins)
        inputs = get_data_versions(data, workspace)
        client = open_client(uri)
        with _hold_store(uri, root):
            experiment = retry_on_race(lambda: _ensure_experiment(client))
            if stage := os.environ.get("DVC_STAGE"):  # `dvc repro` sets it
                known.setdefault(PARENT, _ensure_parent_run(client, experiment, stage, known, workspace))
        context = _build_context_tags(name, commit, workspace)
    logged = {name: str(value) for name, value in params.items()}
    return PlannedRun(name, key, uri, str(root), experiment, context, known, logged, inputs)


def create_run(planned: PlannedRun) -> str:
    """Create a planned run, or find that of an earlier process, log what is known of it, and return its id.

    The first call of a process also ends the runs of this machine's killed processes.

    Raises:
        ConfigError, ResourceError: as in ``open_run``.
    """
    with _translate_planned(planned):
        from mlflow.entities import Param, RunTag

        client, process = open_client(planned.uri), killed_runs.describe_process()
        with _hold_store(planned.uri, Path(planned.root)):
            run_id = get_or_create_run(
                client,
                planned.experiment,
                KEY,
                planned.key,
                lambda: client.create_run(
                    planned.experiment, tags={**planned.context, **process, KEY: planned.key}
                ),
            )
            client.log_batch(
                run_id,
                params=[Param(name, value) for name, value in planned.params.items()],
                tags=[RunTag(name, value) for name, value in {**planned.tags, **process}.items()],
            )
            _end_killed_runs_once(planned.uri, planned.experiment)
            inputs = [
                _build_dataset_input(path, digest, planned.tags["git.commit"])
                for path, digest in planned.inputs.items()
            ]
            if inputs:
                retry_on_race(lambda: client.log_inputs(run_id, datasets=inputs))
    return run_id


def _translate_planned(planned: PlannedRun) -> AbstractContextManager[None]:
    return translate_errors(
        lambda error: _explain_error(error, planned.name, planned.uri, Path(planned.root))
    )


def _hold_store(uri: str, root: Path) -> AbstractContextManager[Any]:
    """Let one process at a time find and create runs in a folder: these are two requests.

    On a server ``get_or_create_run`` removes what two hosts created, and a worker's host need not have the
    project's folder.
    """
    # The lock is not in mlruns/, which may be on a volume without locks.
    return nullcontext() if uri.startswith("http") else hold_lock(root / LOCKS / "runs.lock")


@contextmanager
def open_store(root: Path) -> Iterator[tuple[mlflow.MlflowClient, str]]:
    """Open a client of the project's tracking store, and yield it with the id of the experiment.

    Raises:
        ConfigError: the server refuses this user, or the experiment was deleted there.
        DataError: the store is empty or broken.
        ResourceError: the server does not answer, or the volume of ``mlruns/`` is full or read-only.
    """
    uri = get_tracking_uri(root)
    with translate_errors(lambda error: _explain_error(error, "of a pin", uri, root)):
        client = open_client(uri)
        yield client, retry_on_race(lambda: _ensure_experiment(client))


def end_killed_runs(root: Path) -> int:
    """End the runs of this machine's killed processes as ``KILLED``; return their number.

    Raises:
        ConfigError, DataError, ResourceError: as in ``open_store``.
    """
    if not has_store(root):
        return 0
    with open_store(root) as (client, experiment), _hold_store(uri := get_tracking_uri(root), root):
        return killed_runs.end_orphaned_runs(client, experiment, is_shared=_is_shared(uri))


@cache
def _end_killed_runs_once(uri: str, experiment: str) -> None:
    """End the runs of killed processes when this process opens its first run of an experiment."""
    killed_runs.end_orphaned_runs(open_client(uri), experiment, is_shared=_is_shared(uri))


def _is_shared(uri: str) -> bool:
    """Return whether other machines may write to a store: it is not the database of a project's folder."""
    return not uri.startswith(FOLDER_SCHEME)


def _ensure_experiment(client: mlflow.MlflowClient) -> str:
    """Return the id of the experiment, creating it on first use."""
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        return require_id(client.create_experiment(EXPERIMENT, tags=dict([KIND])), "a new experiment")
    require_id(experiment.experiment_id, f"the experiment {EXPERIMENT!r}")
    if experiment.lifecycle_stage != "active":
        raise ConfigError(
            f"The experiment {EXPERIMENT!r} was deleted in the tracking store. Restore it: `mlflow experiments restore "
            f"--experiment-id {experiment.experiment_id}`."
        )
    if KIND[0] not in experiment.tags:
        client.set_experiment_tag(experiment.experiment_id, *KIND)
    return str(experiment.experiment_id)


def _ensure_parent_run(
    client: mlflow.MlflowClient, experiment: str, stage: str, known: Mapping[str, str], workspace: Path
) -> str:
    """Return the id of a stage's parent run for an experiment of DVC or a commit, creating it if needed."""
    name, commit = known.get("dvc.experiment", ""), known["git.commit"]
    short = f"{commit[:12]}-dirty" if commit.endswith("-dirty") else commit[:12]
    key = hashlib.sha256(f"{stage} {name or commit}".encode()).hexdigest()
    tags = _build_context_tags(f"{stage} of {name}" if name else f"{stage} at {short}", commit, workspace)
    parent_tags = {PARENT_OF: stage, "git.commit": commit, **({"dvc.experiment": name} if name else {})}
    run_id = get_or_create_run(
        client,
        experiment,
        KEY,
        key,
        lambda: client.create_run(experiment, tags={**tags, **parent_tags, KEY: key}),
    )
    client.set_terminated(run_id)  # it does no work itself, and ends when the last of its runs begins
    return run_id


def _build_context_tags(name: str, commit: str, workspace: Path) -> dict[str, str]:
    """Return MLflow's tags for a new run: its name, user, program, commit and the repository's URL.

    MLflow itself would ask git for the last two, and so run programs that the repository's own settings name.
    """
    from mlflow.tracking.context.git_context import GitRunContext
    from mlflow.tracking.context.registry import resolve_tags
    from mlflow.utils.mlflow_tags import MLFLOW_GIT_COMMIT, MLFLOW_GIT_REPO_URL

    known = {} if commit == "unknown" else {MLFLOW_GIT_COMMIT: commit.removesuffix("-dirty")}
    if address := query_git("config", "--get", "remote.origin.url", folder=workspace):
        known[MLFLOW_GIT_REPO_URL] = redact_secrets(address.decode().strip())
    tags: dict[str, str] = resolve_tags({"mlflow.runName": name, **known}, ignore=[GitRunContext])
    return tags


def _build_dataset_input(path: str, digest: str, commit: str) -> Any:
    """Return an output of DVC as an input of a run."""
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.data.meta_dataset import MetaDataset
    from mlflow.entities import DatasetInput, InputTag

    source = CodeDatasetSource(tags={"dvc.path": path, "dvc.md5": digest, "git.commit": commit})
    dataset = MetaDataset(source, name=path, digest=digest[:DIGEST])._to_mlflow_entity()
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "input")])


@contextmanager
def open_run(planned: PlannedRun) -> Iterator[ActiveRun]:
    """Create or resume a run for the block in this process, and log what processor, memory and GPU do meanwhile.

    An unavailable server is waited for, as long as MLflow does (``MLFLOW_HTTP_REQUEST_MAX_RETRIES``).

    Raises:
        ConfigError: the server refuses this user.
        ResourceError: the server is unavailable for too long, or the volume of ``mlruns/`` is full or
            read-only.
    """
    run_id = create_run(planned)
    with _translate_planned(planned):
        import mlflow
        from sqlalchemy.exc import SQLAlchemyError

        from caramel.runtime.mlflow.system_metrics import SystemMonitor

        active = mlflow.start_run(run_id=run_id, log_system_metrics=False)
        monitor = SystemMonitor(run_id, planned.uri)
        try:
            if killed_runs.ENDED in active.data.tags:
                mlflow.delete_tag(killed_runs.ENDED)
            monitor.start()
            yield active
            monitor.finish()
            monitor.log_once()
            mlflow.end_run()
        except BaseException as error:
            # A server that was given up is not waited for again. The error that ended the run is reported,
            # not this one.
            given_up = isinstance(error, Exception) and explain_error(error, planned.uri) is not None
            with disable_retries() if given_up else nullcontext():
                with suppress(mlflow.MlflowException, SQLAlchemyError):
                    monitor.finish()
                # A run that stays open in this process would make its next one fail.
                if (still := mlflow.active_run()) is not None and still.info.run_id == run_id:
                    with suppress(mlflow.MlflowException, SQLAlchemyError):
                        mlflow.end_run("KILLED" if isinstance(error, SystemExit) else "FAILED")
            raise


def end_planned_run(planned: PlannedRun, status: Literal["FAILED", "KILLED"]) -> None:
    """End a run that did not end itself, if it had begun: its process was killed, or what it waited for failed.

    Raises:
        ConfigError, ResourceError: as in ``open_run``.
    """
    with _translate_planned(planned):
        client = open_client(planned.uri)
        for run_id in find_runs(client, planned.experiment, KEY, planned.key):
            retry_on_race(partial(client.set_terminated, run_id, status))


def _explain_error(error: Exception, name: str, uri: str, root: Path) -> CaramelError | None:
    """Return what an error of the store or server means for the user; None if it has another cause."""
    if uri.startswith("http"):
        user_error = explain_error(error, uri)
        return user_error and type(user_error)(f"Run {name!r} cannot be tracked. {user_error}")
    if os.environ.get(NAME):
        return None
    if message := explain_disk_error(error, [root / "mlruns"]):
        return ResourceError(f"Run {name!r} cannot be tracked: {message}")
    return explain_broken_store(error, root / "mlruns")


def _build_run_opener(
    plan: Callable[Asked, PlannedRun],
) -> Callable[Asked, AbstractContextManager[ActiveRun]]:
    """Return a function that plans a run and opens it at once."""

    @contextmanager
    def plan_and_open(*asked: Asked.args, **named: Asked.kwargs) -> Iterator[ActiveRun]:
        with open_run(plan(*asked, **named)) as active:
            yield active

    return plan_and_open


# Plan, create and open the run of ``key``, or reopen it if an earlier process was killed; same arguments as
# ``plan_run``.
run = _build_run_opener(plan_run)
