"""DVC's commands, each in a process of its own that is forked from one in which DVC is imported: that takes a second."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from processes import ForkServer, JobResult, serve

USED = ("dvc.cli", "dvc.repo", "dvc_data.index", "dvc_s3", "s3fs", "aiobotocore.session", "dvc_http")
USED += tuple(f"dvc.commands.{name}" for name in ("init", "remote", "repro", "data_sync", "status"))

_get_server = cache(lambda: ForkServer(Path(__file__)))


def run_dvc(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> JobResult:
    """Run a command of DVC in a folder; return its exit code and what it wrote."""
    return _get_server().run(arguments, folder, environment)


def _run_here(arguments: list[str]) -> int:
    """Run a command in this process."""
    sys.argv = ["dvc", *arguments]
    from dvc.cli import main

    return int(main(arguments))


if __name__ == "__main__":
    for name in USED:
        with suppress(ImportError):
            importlib.import_module(name)
    serve(_run_here)
