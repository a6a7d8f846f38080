"""MLflow runs that name the data set version they used.

The store is SQLite with artifacts beside it, under ``mlruns/`` of the project's root (also
when DVC runs an experiment in a temporary folder; the data version is then that folder's). Any process may log: the database is
made under a file lock and runs in write-ahead mode.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from caramel.errors import DataError, ResourceError
from caramel.running.dvc_state import read_lock
from caramel.running.work_folder import LOCKS
from caramel.storage.volumes import blamed, require

if TYPE_CHECKING:
    import mlflow

EXPERIMENT = "caramel"
LOCK_WAIT = 300.0  # seconds; a lock is held for one or two, and all trials may want it at once


def store_root() -> Path:
    """Return the folder that holds ``mlruns/``: ``DVC_ROOT`` where DVC runs the stage, else this one."""
    return Path(os.environ.get("DVC_ROOT", ".")).resolve()


def git_commit(workspace: Path) -> str:
    """Return the commit that is checked out, with ``-dirty`` if tracked sources differ from it.

    ``dvc.lock`` and the pins do not count: a run of the pipeline writes them itself.
    """
    head = _git(workspace, "rev-parse", "HEAD")
    if not head:
        return "unknown"
    changed = _git(
        workspace, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!dvc.lock", ":!pins"
    )
    return f"{head}-dirty" if changed else head


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def data_versions(paths: Sequence[str], workspace: Path) -> dict[str, str]:
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


def tracking_uri(root: Path) -> str:
    """Return the URI of the store, making it on first use.

    ``CARAMEL_TRACKING_URI`` names another one, such as a server that all nodes of a cluster reach.

    Raises:
        DataError: the store is empty or broken.
        ResourceError: the volume of ``mlruns/`` is full or read-only, or another process holds its lock for long.
    """
    if "CARAMEL_TRACKING_URI" in os.environ:
        return os.environ["CARAMEL_TRACKING_URI"]
    folder = root / "mlruns"
    require([folder])  # SQLite and MLflow would say much, and not this
    folder.mkdir(exist_ok=True)
    database = folder / "mlflow.db"
    with _held(database.with_name("mlflow.db.lock")):
        if not database.exists():
            _make_store(database)
        counted_runs(database)
    return f"sqlite:///{database}?timeout=60"


def counted_runs(database: Path) -> tuple[int, int]:
    """Return how many runs a store holds, and how many of them are running.

    Raises:
        DataError: it is empty or broken: no database, or one without MLflow's tables.
        ResourceError: it cannot be read at this time.
    """
    lost = (
        f"The runs that it held are gone, unless there is a copy: put that back, or move the file away "
        f"(`mv {database} {database}.broken`), and a new store is made."
    )
    # On a read-only volume SQLite cannot make the files that go with write-ahead mode; nobody writes there.
    options = "immutable=1" if os.statvfs(database).f_flag & os.ST_RDONLY else "mode=ro"
    try:
        with closing(
            sqlite3.connect(f"{database.resolve().as_uri()}?{options}", uri=True, timeout=60)
        ) as store:
            count, running = store.execute("SELECT count(*), sum(status = 'RUNNING') FROM runs").fetchone()
            return count, running or 0
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            said = "is empty" if database.stat().st_size == 0 else "has no table of runs"
            raise DataError(f"The store of runs {database} {said}. {lost}") from error
        raise ResourceError(f"The store of runs {database} cannot be read now: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise DataError(f"The store of runs {database} is broken: {error}. {lost}") from error


def _make_store(database: Path) -> None:
    """Make database and experiment under another name, then rename: all or nothing."""
    import mlflow

    new = database.with_name("mlflow.new.db")
    new.unlink(missing_ok=True)
    artifacts = database.with_name("artifacts").as_uri()
    mlflow.MlflowClient(f"sqlite:///{new}").create_experiment(EXPERIMENT, artifact_location=artifacts)
    with sqlite3.connect(new) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    for rest in ("-wal", "-shm"):  # of a store that was moved away: SQLite would write it into the new one
        with suppress(FileNotFoundError):
            os.replace(f"{database}{rest}", f"{database}.broken{rest}")  # where the moved one finds it
    os.replace(new, database)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold a file lock; raise a ResourceError that names it if other processes do not let go of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=LOCK_WAIT):
            yield
    except Timeout as error:
        raise ResourceError(
            f"Another process held the lock {path} for {LOCK_WAIT:.0f} s. End it (`fuser {path}` names it), and run "
            f"this again."
        ) from error


@contextmanager
def run(
    name: str,
    *,
    key: str,
    params: Mapping[str, Any],
    data: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    root: str | Path | None = None,
    workspace: str | Path = ".",
) -> Iterator[mlflow.ActiveRun]:
    """Open the MLflow run of ``key``, or reopen it if an earlier process was killed in it.

    Args:
        name: readable name of the run.
        key: hash of all that determines the run; one run per key.
        params: parameters to log; nested values are logged as text.
        data: DVC paths that the run reads; logged as inputs with their DVC hash.
        tags: further tags.
        root: folder that holds ``mlruns/``, where the process does not know it (a Ray worker).
        workspace: folder with the sources and ``dvc.lock`` of this run. ``dvc exp run --temp`` has
            one of its own, so that it is not always ``root``.

    Raises:
        DataError: the store is empty or broken, or ``dvc.lock`` is.
        ResourceError: the volume of ``mlruns/`` is full or read-only, or another process holds a lock for long.
    """
    import mlflow
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.data.meta_dataset import MetaDataset
    from sqlalchemy.exc import SQLAlchemyError

    root, workspace = Path(root) if root else store_root(), Path(workspace)
    # What it logs of a failure, with a traceback, it raises as well.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    mlflow.set_tracking_uri(tracking_uri(root))
    try:
        with ExitStack() as opened:
            # One process at a time: MLflow's store refuses a data set that two runs add at once.
            # The lock is not in mlruns/: where runs go to a server, that is not written.
            with _held(root / LOCKS / "runs.lock"):
                experiment = mlflow.set_experiment(EXPERIMENT)
                earlier = mlflow.search_runs(
                    [experiment.experiment_id], f"tags.`caramel.key` = '{key}'", output_format="list"
                )
                run_id = earlier[0].info.run_id if earlier else None
                active = mlflow.start_run(run_id=run_id, run_name=None if earlier else name)
                opened.enter_context(active)
                commit = git_commit(workspace)
                mlflow.set_tags({"caramel.key": key, "git.commit": commit, **(tags or {})})
                mlflow.log_params(dict(params))
                for path, digest in data_versions(data, workspace).items():
                    source = CodeDatasetSource(
                        tags={"dvc.path": path, "dvc.md5": digest, "git.commit": commit}
                    )
                    mlflow.log_input(MetaDataset(source, name=path, digest=digest[:36]), context="input")
            yield active
    except (mlflow.MlflowException, SQLAlchemyError) as error:
        if "CARAMEL_TRACKING_URI" in os.environ or (said := blamed(error, [root / "mlruns"])) is None:
            raise
        raise ResourceError(f"Run {name!r} cannot be tracked: {said}") from error
