"""DVC's commands, each in a process of its own that is forked from one in which DVC is imported: that takes a second."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

USED = ("dvc.cli", "dvc.repo", "dvc_data.index", "dvc_s3", "s3fs", "aiobotocore.session", "dvc_http")
USED += tuple(f"dvc.commands.{name}" for name in ("init", "remote", "repro", "data_sync", "status"))


@cache
def _start_parent() -> subprocess.Popen[str]:
    """Start the process that is forked; it ends with this one, or when its input is closed."""
    parent = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    atexit.register(parent.communicate)
    return parent


def run_dvc(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command of DVC in a folder; return its exit code and what it wrote."""
    parent = _start_parent()
    assert parent.stdin is not None
    assert parent.stdout is not None
    with tempfile.TemporaryDirectory() as scratch:
        out, err = Path(scratch, "out"), Path(scratch, "err")
        job = [[*arguments], str(folder), dict(environment), str(out), str(err)]
        parent.stdin.write(f"{json.dumps(job)}\n")
        code = int(parent.stdout.readline())
        return subprocess.CompletedProcess(["dvc", *arguments], code, out.read_text(), err.read_text())


def _run_here(arguments: list[str], folder: str, environment: dict[str, str], out: str, err: str) -> int:
    """Become the command, in a forked process."""
    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["dvc", *arguments]
    from dvc.cli import main

    return int(main(arguments))


def _serve() -> None:
    """Fork for each job that is asked for, and say how it ended."""
    for name in USED:
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 70
            try:
                code = _run_here(*json.loads(line))
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    _serve()
