"""Cache the last result of a slow function, such as a loaded model, while its inputs on disk are unchanged.

A process may live longer than a checkpoint's content, the working folder or a key in the environment: a
notebook that alternates training and scoring, a worker, a test. ``functools.lru_cache`` knows only the
arguments, and would return the model of the first content forever.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_READ = (
    "CARAMEL_",
    "HF_",
)  # prefixes of variables that loaders read: keys, folders, hub access


class LastResult(Generic[P, T]):
    """A function that keeps its last result.

    It drops the result before computing a new one: both may not fit into memory.
    """

    def __init__(self, function: Callable[P, T], stamp: Callable[P, str]) -> None:
        self._function, self._stamp = function, stamp
        self._last: tuple[object, T] | None = None
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the last result if arguments, stamp and variables are unchanged, else a new one."""
        variables = sorted((name, value) for name, value in os.environ.items() if name.startswith(_READ))
        key = (args, sorted(kwargs.items()), self._stamp(*args, **kwargs), variables)
        if self._last is None or self._last[0] != key:
            self._last = None
            self._last = key, self._function(*args, **kwargs)
        return self._last[1]

    def cache_clear(self) -> None:
        """Drop the last result."""
        self._last = None


def keep_last(stamp: Callable[P, str]) -> Callable[[Callable[P, T]], LastResult[P, T]]:
    """Return a decorator that makes a function keep its last result.

    Args:
        stamp: arguments of the function -> a text that changes when the function's inputs do, as of
            ``stamp_files``.
    """
    return lambda function: LastResult(function, stamp)


def stamp_files(path: str | Path) -> str:
    """Return a text that changes when a file, or one in a folder, is written or replaced. No content is read.

    It contains the absolute path, and the number, size and time in nanoseconds of each file. For a path that
    does not exist, such as a name on a hub, it is only the path.
    """
    whole = Path(path).absolute()
    members = sorted(whole.rglob("*")) if whole.is_dir() else [whole]
    stats = [(str(p), s.st_ino, s.st_size, s.st_mtime_ns) for p in members if p.is_file() for s in [p.stat()]]
    return repr((str(whole), stats))
