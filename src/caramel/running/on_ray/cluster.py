"""Ray for a block's time: the cluster at ``RAY_ADDRESS``, or one on this machine that no other can reach.

A cluster on this machine listens on the loopback interface alone. All of Ray's servers ask for the token in
``~/.ray/auth_token``, which nobody but its owner can read.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from caramel.errors import ResourceError
from caramel.running.quiet import passed_on
from caramel.running.tracking_server import environment

SOURCES = Path(__file__).parents[2]  # the package, as it is sent to other nodes
SERVICES = ("gcs_server", "raylet")  # without one of them nothing goes on
LOOK = 2.0  # seconds between looks whether they run
# Ray binds to the loopback interface where clusters of several machines are ruled out, as on macOS.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
RETRIES = 3  # of a task whose worker or node died; a Python exception is not retried
# Ray counts those that its memory monitor ended by themselves, and would retry them without end.
BOUNDED = {"RAY_task_oom_retries": str(RETRIES)}
# A worker that asks for no GPU sees none: models of several would not fit into one, and scores would depend on the node.
UNSEEN = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}


def named_cluster() -> str:
    """Return the address of the cluster that ``RAY_ADDRESS`` names; empty if Ray is to run on this machine."""
    address = os.environ.get("RAY_ADDRESS", "")
    return "" if address == "local" else address


def unreachable(address: str) -> str | None:
    """Return why nothing answers at the address of a cluster, None if something does."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2):
            return None
    except ValueError:
        return "it is no HOST:PORT"
    except (OSError, OverflowError) as error:
        return str(error)


_OPEN: list[ExitStack] = []  # of ``one_session``


@contextmanager
def one_session() -> Iterator[None]:
    """Have all Ray sessions of the block be one, from the first on to the block's end: to start Ray takes seconds."""
    with ExitStack() as stack:
        _OPEN.append(stack)
        try:
            yield
        finally:
            _OPEN.pop()


def in_one_session() -> bool:
    """Return whether this is in the block of ``one_session``."""
    return bool(_OPEN)


@contextmanager
def ray_session() -> Iterator[Callable[[], None]]:
    """Join or start a cluster for the time of the block, or of ``one_session``; or use the one that this process is in.

    Gives a function that raises ResourceError if Ray's own processes on this machine are gone: Ray itself
    would wait for them, some of its calls without end.

    Raises:
        ResourceError: the cluster cannot be joined or started.
    """
    ours = not named_cluster()
    for name, value in (
        BOUNDED | UNSEEN | (LOOPBACK if ours else {})
    ).items():  # Ray reads it when it is imported
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        yield _watch()
        return
    guard_token(make=ours)
    _join()
    with ExitStack() as alone:
        (_OPEN[-1] if _OPEN else alone).callback(ray.shutdown)
        yield _watch()


def _join() -> None:
    """Join the cluster that is named, or start one. One that runs here and is not named has another folder: it is let be."""
    import ray
    from ray.exceptions import RayError

    address = named_cluster()
    said = unreachable(address) if address else None  # Ray itself would try for minutes
    if said is None:
        refusals = (ConnectionError, RayError, ValueError, RuntimeError) if address else ()
        # Nodes elsewhere have neither this process's environment nor its code; they log to the same server.
        elsewhere = (
            {"env_vars": environment() | passed_on(), "py_modules": [str(SOURCES)]} if address else None
        )
        try:
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level="error",
                include_dashboard=False,
                runtime_env=elsewhere,
            )
        except refusals as error:
            said = str(error).partition("\n")[0]
        except Exception as error:
            if type(error) is not Exception:  # Ray raises it bare when one of its processes does not start
                raise
            raise ResourceError(
                f"Ray did not start on this machine: {error} One of its processes may have been killed, or the "
                f"machine is too busy. What was finished is kept; run `dvc repro` to go on."
            ) from error
        else:
            # Ray itself prints dozens of lines of its own log, twice, with some of them.
            ray._private.worker.print_to_stdstream = _print_first_line
            return
    raise ResourceError(
        f"Ray's cluster at RAY_ADDRESS={address!r} cannot be joined: {said}. Is it running, and is its token in "
        f"~/.ray/auth_token (or in the file that RAY_AUTH_TOKEN_PATH names)? Without RAY_ADDRESS Ray starts on this machine."
    )


def _print_first_line(data: Mapping[str, Any], **how: Any) -> None:
    """Print what Ray says of a worker or node that died."""
    print(f"Ray: {data['lines'][0].partition(chr(10))[0]}", file=sys.stderr)


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


def _write_token(path: Path) -> None:
    """Write a new token that its owner alone can read; one that another process has just written stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)  # readable by its owner alone
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(secrets.token_hex(32))
    with suppress(FileExistsError):
        os.link(name, path)
    Path(name).unlink()


def guard_token(*, make: bool) -> None:
    """Have nobody but its owner read Ray's token; Ray itself would make one that all users can read.

    Args:
        make: whether to make one where there is none.

    Raises:
        ResourceError: the home folder is missing or cannot be written.
    """
    if os.environ.get("RAY_AUTH_MODE") != "token" or {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & {
        *os.environ
    }:
        return
    path = Path.home() / ".ray" / "auth_token"
    if make and not path.exists():
        try:
            _write_token(path)
        except OSError as error:
            raise ResourceError(
                f"Ray's token cannot be written to {str(path)!r}: {error.strerror}. Set HOME to a folder that you can "
                "write, or RAY_AUTH_TOKEN to a secret text of 32 characters or more."
            ) from error
    if path.exists() and path.stat().st_mode & 0o077:
        path.chmod(0o600)
