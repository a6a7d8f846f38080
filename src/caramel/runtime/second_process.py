"""A second process of a stage, for work that does not wait for what the stage does meanwhile."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from caramel.errors import CaramelError, ResourceError
from caramel.runtime.environment import be_quiet, collect_seldom, end_process
from caramel.runtime.fork_client import FORKING

P = ParamSpec("P")
T = TypeVar("T")
SCRIPT = "from caramel.runtime.second_process import answer_call; answer_call()\n"


@contextmanager
def run_beside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Iterator[Callable[[], T]]:
    """Run a function of a module in a new process while the block runs; give a function that waits for its result.

    It is a new Python, or a fork where stages are forks. A fork of this process would copy threads of PyTorch and
    Ray that are not there. If the block fails, its error is raised after the process has ended.

    Raises:
        ResourceError: from the given function, the process ended without a result, as if out of memory.
        Exception: from the given function, whatever ``work`` raised.
    """
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryDirectory(prefix="caramel-") as folder, Connection(ours.detach()) as connection:
        script = Path(folder, "script.py")
        script.write_text(SCRIPT)
        with theirs:
            process = subprocess.Popen(
                [os.environ.get(FORKING, sys.executable), str(script)], stdin=theirs.fileno()
            )
        try:
            with suppress(BrokenPipeError):  # whoever waits for the result learns it
                connection.send(sys.path)
                connection.send((work, args, kwargs))
            yield lambda: _wait_for_result(connection)
        finally:
            connection.close()  # the process may wait for somebody to read its result
            process.wait()


def answer_call() -> None:
    """Do what standard input, a socket, asks for, and answer with the result or the error; end this process."""
    be_quiet()
    collect_seldom()
    with Connection(os.dup(0)) as connection:
        with Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), 0)  # what the work starts has no part in this
        sys.path[:] = connection.recv()
        work, args, kwargs = connection.recv()
        result, raised = None, None
        try:
            result = work(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the stage raises it
            if not isinstance(error, CaramelError):
                error.add_note(f"In the second process:\n{traceback.format_exc()}")
            raised = make_picklable(error)
        with suppress(BrokenPipeError):  # the stage has failed meanwhile
            connection.send((result, raised))
    end_process()


def _wait_for_result(connection: Connection) -> Any:
    try:
        result, raised = connection.recv()
    except (EOFError, ConnectionError):
        raise ResourceError(
            "A second process of this stage ended without a result. It may have been killed, as when memory runs "
            "out. What was finished is kept: run `dvc repro` to go on."
        ) from None
    if raised is not None:
        raise raised
    return result


def make_picklable(error: Exception) -> Exception:
    """Return an error that can be pickled: the error itself, or a ``ResourceError`` with its message."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled by this process
    except Exception:  # noqa: BLE001 - its constructor may fail in any way
        return ResourceError(f"{type(error).__name__}: {error}")
    return error
