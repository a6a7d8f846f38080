"""Find or create the tracking store.

``mlruns/`` of the project's root, or what ``CARAMEL_TRACKING_URI`` names.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from filelock import FileLock, Timeout

from caramel.errors import ConfigError, DataError, ResourceError
from caramel.io.disk_space import require_writable
from caramel.runtime.mlflow.server import NAME

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "caramel"
DATABASE = "mlflow.db"
FOLDER_SCHEME = "sqlite+pysqlite"  # of the URI of a folder's store
LOCK_WAIT = 300.0  # seconds; a lock is held for one or two, and all trials may need it at once


def get_store_root() -> Path:
    """Return the folder that holds ``mlruns/``.

    ``DVC_ROOT`` if DVC runs the stage, else the current folder.
    """
    return Path(os.environ.get("DVC_ROOT", ".")).resolve()


def has_store(root: Path) -> bool:
    """Return whether ``CARAMEL_TRACKING_URI`` names a store, or runs were tracked in ``mlruns/``."""
    return bool(os.environ.get(NAME)) or (root / "mlruns" / DATABASE).exists()


def get_tracking_uri(root: Path) -> str:
    """Return the URI of the store, creating it on first use.

    ``CARAMEL_TRACKING_URI`` names another store, such as a server that all nodes of a cluster reach.

    Raises:
        DataError: the store is empty or broken.
        ResourceError: the volume of ``mlruns/`` is full or read-only, or another process holds its lock for
            long.
    """
    return os.environ.get(NAME) or get_store_uri(root / "mlruns")


def open_client(uri: str) -> MlflowClient:
    """Return a client of the store at a URI, and make it MLflow's default for runs and models.

    Every client is opened here. Otherwise the default registry is the one of an earlier call in the process,
    or ``mlflow.db`` in the working folder, which MLflow then creates. Some of MLflow's functions use both
    defaults.
    """
    import mlflow

    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    return mlflow.MlflowClient(uri, uri)


def format_database_uri(database: Path) -> str:
    """Return the URI by which MLflow opens an SQLite file, whatever characters its path has.

    SQLAlchemy encodes and decodes the path. MLflow does not if a URI begins with ``sqlite:///``: it creates a
    folder with the encoded name. With the driver in the scheme it does not.

    Raises:
        ConfigError: the path is not in UTF-8, or cannot be read back from the URI.
    """
    from sqlalchemy import URL, make_url

    try:
        url = URL.create(FOLDER_SCHEME, database=str(database), query={"timeout": "60"})
        uri = url.render_as_string(hide_password=False)
        is_exact = make_url(uri).database == str(database)
    except UnicodeEncodeError:
        is_exact = False
    if not is_exact:
        raise ConfigError(
            f"Runs cannot be tracked in {str(database.parent)!r}: MLflow cannot open a database in a folder of that name. Rename the folder, or "
            f"set {NAME} to the address of an MLflow server."
        )
    return uri


def get_store_uri(folder: Path) -> str:
    """Return the URI of a folder's store, creating it on first use and fixing its paths after a move.

    Raises:
        ConfigError: MLflow cannot open a database at that path.
        DataError: the store is empty or broken.
        ResourceError: the volume is full or read-only, or another process holds the store's lock for long.
    """
    database = Path(os.path.realpath(folder), DATABASE)
    uri = format_database_uri(database)
    require_writable([folder])  # the errors of SQLite and MLflow would not say this
    folder.mkdir(exist_ok=True)
    with hold_lock(database.with_name("mlflow.db.lock")):
        if not database.exists():
            _make_store(database)
        count_runs(database)
        try:
            _update_artifact_paths(database)
        except sqlite3.DatabaseError as error:
            raise DataError(f"The store of runs {database} is broken: {error}.") from error
    return uri


def _update_artifact_paths(database: Path) -> None:
    """Update the artifact paths of a store that was moved or copied with its folder.

    MLflow stores absolute paths of artifacts. Paths in the experiment's artifact folder are changed if the
    folder beside the database is another one, unless only the database was moved away from its artifacts.
    """
    artifacts = database.with_name("artifacts")
    new = artifacts.as_uri()
    # MLflow reports missing tables. What is locked or cannot be written is fixed the next time.
    with closing(sqlite3.connect(database, timeout=60)) as store, suppress(sqlite3.OperationalError):
        locations = store.execute(
            "SELECT artifact_location FROM experiments WHERE name = ?", [EXPERIMENT]
        ).fetchall()
        for (old,) in locations:
            if old == new or not old.startswith("file:"):
                continue
            if not artifacts.exists() and Path(unquote(urlsplit(old).path)).exists():
                continue
            for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
                store.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                    [new, len(old) + 1, old, len(old) + 1, f"{old}/"],
                )
            store.commit()


def count_runs(database: Path) -> tuple[int, int]:
    """Return the number of runs in a store, and how many of them are running.

    Raises:
        DataError: the store is empty or broken: not a database, or one without MLflow's tables.
        ResourceError: the store cannot be read now.
    """
    lost = _tell_lost_runs(database)
    # On a read-only volume SQLite cannot create the files of write-ahead mode, and nobody writes there.
    options = "immutable=1" if os.statvfs(database).f_flag & os.ST_RDONLY else "mode=ro"
    try:
        with closing(
            sqlite3.connect(f"{Path(os.path.realpath(database)).as_uri()}?{options}", uri=True, timeout=60)
        ) as store:
            count, running = store.execute("SELECT count(*), sum(status = 'RUNNING') FROM runs").fetchone()
            return count, running or 0
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            problem = "is empty" if database.stat().st_size == 0 else "has no table of runs"
            raise DataError(f"The store of runs {database} {problem}. {lost}") from error
        raise ResourceError(f"The store of runs {database} cannot be read now: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise DataError(f"The store of runs {database} is broken: {error}. {lost}") from error


def explain_broken_store(error: Exception, folder: Path) -> DataError | None:
    """Return an error if a folder's store is damaged or lacks a table or column of MLflow, else None."""
    database = Path(os.path.realpath(folder), DATABASE)
    if lacking := re.search(r"no such (?:table|column): \S+", str(error)):
        return DataError(
            f"The store of runs {database} was not written by MLflow: {lacking[0]}. Put a copy back, or move the file away "
            f"(`mv {database} {database}.broken`), and a new store is made."
        )
    if damage := re.search("database disk image is malformed|file is not a database", str(error)):
        return DataError(f"The store of runs {database} is broken: {damage[0]}. {_tell_lost_runs(database)}")
    return None


def _tell_lost_runs(database: Path) -> str:
    return (
        f"The runs that it held are gone, unless there is a copy: put that back, or move the file away "
        f"(`mv {database} {database}.broken`), and a new store is made."
    )


def _make_store(database: Path) -> None:
    """Create database and experiment under another name, then rename: all or nothing."""
    import mlflow

    new = database.with_name("mlflow.new.db")
    new.unlink(missing_ok=True)
    artifacts = database.with_name("artifacts").as_uri()
    uri = format_database_uri(new)
    mlflow.MlflowClient(uri, uri).create_experiment(EXPERIMENT, artifact_location=artifacts)
    with sqlite3.connect(new) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    for rest in (
        "-wal",
        "-shm",
    ):  # of a store that was moved away: SQLite would apply them
        with suppress(FileNotFoundError):
            os.replace(f"{database}{rest}", f"{database}.broken{rest}")  # name beside the moved database
    os.replace(new, database)


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a file lock, or raise a ResourceError that names it if other processes do not release it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=LOCK_WAIT):
            yield
    except Timeout as error:
        raise ResourceError(
            f"Another process held the lock {path} for {LOCK_WAIT:.0f} s. End it (`fuser {path}` names it), and run "
            f"this again."
        ) from error
