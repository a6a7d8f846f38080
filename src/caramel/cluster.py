"""Ray for a block's time: the cluster at ``RAY_ADDRESS``, or one on this machine that no other can reach.

A cluster on this machine listens on the loopback interface alone. All of Ray's servers ask for the token in
``~/.ray/auth_token``, which nobody but its owner can read.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from caramel.errors import ResourceError

SERVICES = ("gcs_server", "raylet")  # without one of them nothing goes on
LOOK = 2.0  # seconds between looks whether they run
# Ray binds to the loopback interface where clusters of several machines are ruled out, as on macOS.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@contextmanager
def ray_session() -> Iterator[Callable[[], None]]:
    """Join or start a cluster for the block's time, or use the one that this process is in.

    Gives a function that raises ResourceError if Ray's own processes on this machine are gone: Ray itself
    would wait for them, some of its calls without end.
    """
    ours = os.environ.get("RAY_ADDRESS", "local") == "local"
    if ours:
        for name, value in LOOPBACK.items():  # Ray reads it when it is imported
            os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        yield _watch()
        return
    guard_token(make=ours)
    ray.init(log_to_driver=False, logging_level="error", include_dashboard=False)
    try:
        yield _watch()
    finally:
        ray.shutdown()


def _watch() -> Callable[[], None]:
    """Return the function that looks whether Ray still runs."""
    import ray

    services = _services()
    node = ray.get_runtime_context().get_node_id()
    last = time.monotonic()

    def look() -> None:
        nonlocal last
        if time.monotonic() - last < LOOK:
            return
        last = time.monotonic()
        if services:
            gone = sorted(services - _services())
        else:  # others started it: what the cluster says of this machine
            alive = any(n["NodeID"] == node and n["Alive"] for n in ray.nodes())
            gone = [] if alive else [("raylet", 0)]
        if gone:
            raise ResourceError(
                f"Ray's process {gone[0][0]!r} on this machine was killed; it may have run out of memory. What "
                f"was finished is kept; run `dvc repro` to go on."
            )

    return look


def _services() -> set[tuple[str, int]]:
    """Return (name, number) of Ray's own processes that this one has started and that run."""
    found = set()
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if child.name() in SERVICES and child.status() != psutil.STATUS_ZOMBIE:
                found.add((child.name(), child.pid))
    return found


def guard_token(*, make: bool) -> None:
    """Have nobody but its owner read Ray's token; Ray itself would make one that all users can read.

    Args:
        make: whether to make one where there is none.
    """
    if os.environ.get("RAY_AUTH_MODE") != "token" or {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & {
        *os.environ
    }:
        return
    path = Path.home() / ".ray" / "auth_token"
    if make and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent)  # readable by its owner alone
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(secrets.token_hex(32))
        with suppress(FileExistsError):  # another process has just made it
            os.link(name, path)
        Path(name).unlink()
    if path.exists() and path.stat().st_mode & 0o077:
        path.chmod(0o600)
