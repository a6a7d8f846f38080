"""Commands in processes of their own: what an earlier call in the same process left cannot help them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from types import MappingProxyType

import pytest
from processes import get_python

from caramel import cli

CARAMEL = Path(sys.executable).with_name("caramel")
MLFLOW_FILES = ("mlflow.db", "mlruns", "mlartifacts")


def run_command(
    folder: Path,
    *arguments: str | Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    forked: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run ``caramel`` in a folder as a fork of a process that did nothing, without the variables that MLflow set in this one.

    ``forked=False``: in a new Python, for what Python reads when it starts. It must not end with a traceback, and must leave nothing of MLflow's outside of the folder's ``mlruns``.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    done = subprocess.run(
        [*([get_python()] if forked else []), CARAMEL, *arguments],
        cwd=folder,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    stray = find_stray_stores(folder, folder / "mlruns")
    assert not stray, f"{arguments} left {stray}"
    return done


def find_stray_stores(folder: Path, store: Path) -> list[Path]:
    """Return what MLflow made in a folder, and in those around it, beside the store."""
    paths = [path for name in MLFLOW_FILES for path in folder.rglob(name)]
    paths += [path for name in MLFLOW_FILES if (path := folder.parent / name).exists()]
    return [path for path in paths if store not in (path, *path.parents)]


def run_eval(folder: Path, model: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run ``caramel eval`` of a model on the SugarCrepe files of ``folder/data`` and the images of ``folder/images``."""
    return run_command(folder, *list_eval_arguments(model), *more)


def list_eval_arguments(model: str) -> list[str]:
    """Return the arguments of ``caramel`` with which ``run_eval`` evaluates a model."""
    files = ["--benchmark", "sugarcrepe", "--data", "data", "--images", "images"]
    return ["eval", "--model", model, *files, "--n-bootstrap", "100"]


def call_command(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run ``caramel`` in a folder in this process, which saves the seconds of its imports; it must leave nothing of MLflow's."""
    out, err = io.StringIO(), io.StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        cli.main([*map(str, arguments)])
    stray = find_stray_stores(folder, folder / "mlruns")
    assert not stray, f"{arguments} left {stray}"
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out.getvalue(), err.getvalue())
