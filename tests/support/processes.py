"""Processes that import once what their jobs need, and do each job in a fork of themselves: imports take seconds.

Such a process never does a job itself. So a fork begins as a new process would: without threads, and with nothing of
another job but imported modules. A line of standard input asks for a job, as JSON; a line of standard output answers
with its exit code.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from caramel.runtime.environment import end_process

JobResult = subprocess.CompletedProcess[str]


class ForkServer:
    """Handle of such a process: a script that ends with ``serve``."""

    def __init__(
        self, script: Path, folder: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the script; it ends with this process."""
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        atexit.register(self._process.communicate)  # which closes its input, and waits

    def run(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> JobResult:
        """Do a job in a folder; return its exit code and what it wrote."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as scratch:
            out, err = Path(scratch, "out"), Path(scratch, "err")
            job = [[*arguments], str(folder), dict(environment), str(out), str(err)]
            self._process.stdin.write(f"{json.dumps(job)}\n")
            code = self._process.stdout.readline()
            assert code, f"the process that is forked has ended before {arguments}"
            return subprocess.CompletedProcess(arguments, int(code), out.read_text(), err.read_text())


def serve(work: Callable[[list[str]], int]) -> None:
    """Answer requests until there are no more; ``work`` maps a job's arguments to its exit code."""
    for line in sys.stdin:
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        else:
            end_process(_do_job(work, *json.loads(line)))


def _do_job(
    work: Callable[[list[str]], int],
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    out: str,
    err: str,
) -> int:
    """Become the job's process, and return its exit code."""
    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    try:
        return work(arguments)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()  # as Python does it
        return 1


def checked(done: JobResult) -> JobResult:
    """Return what has ended; where it failed, show what it said."""
    if done.returncode:
        raise AssertionError(f"{done.args} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done
