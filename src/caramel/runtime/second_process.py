"""A second process of a stage, for work that does not wait for what the stage does meanwhile."""

from __future__ import annotations

import atexit
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from caramel.errors import ResourceError
from caramel.runtime.environment import be_quiet, collect_seldom, leave_process

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def run_beside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Iterator[Callable[[], T]]:
    """Run a function of a module in a new process while the block runs; give a function that waits for its result.

    The process is spawned, because a fork would copy threads of PyTorch and Ray that are not there. If the block
    fails, its error is raised after the process has ended.

    Raises:
        ResourceError: from the given function, the process ended without a result, as if out of memory.
        Exception: from the given function, whatever ``work`` raised.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_set_up) as pool:
        started = pool.submit(work, *args, **kwargs)
        yield lambda: _wait(started)


def _set_up() -> None:
    be_quiet()
    collect_seldom()
    atexit.register(leave_process)  # before all others, so it is called last


def _wait(started: Future[Any]) -> Any:
    try:
        return started.result()
    except BrokenProcessPool as error:
        raise ResourceError(
            "A second process of this stage ended without a result. It may have been killed, as when memory runs "
            "out. What was finished is kept: run `dvc repro` to go on."
        ) from error
