"""MLflow runs that name the data set version they used.

The store is SQLite with artifacts beside it, under ``mlruns/`` of the project's root (also
when DVC runs an experiment in a temporary folder). Any process may log: the database is
made under a file lock and runs in write-ahead mode.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from caramel.config import read_yaml

if TYPE_CHECKING:
    import mlflow

EXPERIMENT = "caramel"


def project_root() -> Path:
    """Return the project's root: ``DVC_ROOT`` where DVC runs the stage, else this folder."""
    return Path(os.environ.get("DVC_ROOT", ".")).resolve()


def git_commit(root: Path) -> str:
    """Return the commit that is checked out, with ``-dirty`` if tracked files differ from it."""
    done = subprocess.run(
        ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude", "*"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def data_versions(paths: Sequence[str], root: Path) -> dict[str, str]:
    """Return DVC's hash of each output that is one of the paths or holds one, from ``dvc.lock``.

    Paths that DVC does not track are left out.
    """
    lock = root / "dvc.lock"
    if not lock.exists():
        return {}
    outs = {
        out["path"]: out["md5"]
        for stage in read_yaml(lock)["stages"].values()
        for out in stage.get("outs", ())
    }
    holders = [{path, *(str(parent) for parent in Path(path).parents)} for path in paths]
    return {out: digest for out, digest in outs.items() if any(out in names for names in holders)}


def tracking_uri(root: Path) -> str:
    """Return the URI of the store, making it on first use.

    ``MLFLOW_TRACKING_URI`` names another one, such as a server that all nodes of a cluster reach.
    """
    if "MLFLOW_TRACKING_URI" in os.environ:
        return os.environ["MLFLOW_TRACKING_URI"]
    folder = root / "mlruns"
    folder.mkdir(exist_ok=True)
    database = folder / "mlflow.db"
    uri = f"sqlite:///{database}?timeout=60"
    with FileLock(f"{database}.lock"):
        if database.exists():
            return uri
        import mlflow

        client = mlflow.MlflowClient(uri)
        client.create_experiment(EXPERIMENT, artifact_location=(folder / "artifacts").as_uri())
        with sqlite3.connect(database) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
    return uri


@contextmanager
def run(
    name: str,
    *,
    key: str,
    params: Mapping[str, Any],
    data: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    root: str | Path | None = None,
) -> Iterator[mlflow.ActiveRun]:
    """Open the MLflow run of ``key``, or reopen it if an earlier process was killed in it.

    Args:
        name: readable name of the run.
        key: hash of all that determines the run; one run per key.
        params: parameters to log; nested values are logged as text.
        data: DVC paths that the run reads; logged as inputs with their DVC hash.
        tags: further tags.
        root: the project's root, where the process does not know it (a Ray worker).
    """
    import mlflow
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.data.meta_dataset import MetaDataset

    root = Path(root) if root else project_root()
    mlflow.set_tracking_uri(tracking_uri(root))
    experiment = mlflow.set_experiment(EXPERIMENT)
    earlier = mlflow.search_runs(
        [experiment.experiment_id], f"tags.`caramel.key` = '{key}'", output_format="list"
    )
    with mlflow.start_run(
        run_id=earlier[0].info.run_id if earlier else None, run_name=None if earlier else name
    ) as active:
        if not earlier:
            commit = git_commit(root)
            mlflow.set_tags({"caramel.key": key, "git.commit": commit, **(tags or {})})
            mlflow.log_params(dict(params))
            for path, digest in data_versions(data, root).items():
                source = CodeDatasetSource(tags={"dvc.path": path, "dvc.md5": digest, "git.commit": commit})
                mlflow.log_input(MetaDataset(source, name=path, digest=digest[:36]), context="input")
        yield active
