"""Open a Ray session for a block: the cluster at ``RAY_ADDRESS``, or a private one on this machine.

A cluster on this machine listens only on the loopback interface. All of Ray's servers require the token in
``~/.ray/auth_token``, which only its owner can read.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from caramel.errors import ConfigError, ResourceError
from caramel.runtime.environment import get_forwarded_variables
from caramel.runtime.mlflow.server import get_server_environment
from caramel.runtime.ray.session_health import build_session_check
from caramel.runtime.ray.startup import init_ray, run_local_ray, start_patiently

SOURCES = Path(__file__).parents[2]  # the package, as sent to other nodes
HIGHEST = 65535  # largest port
ANSWER = 20.0  # seconds that a busy head may take for its first bytes
SETTINGS = b"\0\0\0\x04\0\0\0\0\0"  # first frame of both sides: length 0, its type, and nothing else
NO_HEAD = "what answers is no head of Ray"
# Ray binds to the loopback interface if clusters of several machines are disabled, as on macOS.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
RETRIES = 3  # for a task whose worker or node died; a Python exception is not retried
# Ray counts tasks ended by its memory monitor separately, and would retry them without limit.
BOUNDED = {"RAY_task_oom_retries": str(RETRIES)}
# A worker without a GPU request sees none. Otherwise models of several workers would not fit, and scores
# depend on the node.
UNSEEN = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}


def get_cluster_address() -> str:
    """Return the cluster's address in ``RAY_ADDRESS``; empty if Ray should run on this machine."""
    address = os.environ.get("RAY_ADDRESS", "")
    return "" if address == "local" else address


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of the address of a cluster, such as ``10.0.0.1:6379`` or ``[fd00::1]:6379``.

    Raises:
        ConfigError: it is not HOST:PORT.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= HIGHEST):
        raise ConfigError(f"{address!r} is not HOST:PORT, where PORT is a number from 1 to {HIGHEST}.")
    return host.strip("[]"), int(port)


def find_connection_problem(address: str) -> str | None:
    """Return why nothing answers at the address of a cluster, or None if something does."""
    try:
        with socket.create_connection(parse_address(address), timeout=2) as connection:
            return None if os.environ.get("RAY_USE_TLS") == "1" or _is_http2_server(connection) else NO_HEAD
    except ConfigError:
        return "it is not HOST:PORT"
    except (OSError, ValueError) as error:  # ValueError: an invalid host name
        return str(error)


def _is_http2_server(connection: socket.socket) -> bool:
    """Return whether a server starts like one of gRPC.

    Ray itself would wait for any other server for minutes.
    """
    connection.settimeout(ANSWER)
    try:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS)
        return connection.recv(len(SETTINGS))[3:4] == SETTINGS[3:4]
    except OSError:
        return False


_OPEN: list[ExitStack] = []  # of ``share_session``


@contextmanager
def share_session() -> Iterator[None]:
    """Share one Ray session within the block, because starting Ray takes seconds."""
    with ExitStack() as stack:
        _OPEN.append(stack)
        try:
            yield
        finally:
            _OPEN.pop()


def is_session_shared() -> bool:
    """Return whether this is in a block of ``share_session``."""
    return bool(_OPEN)


@contextmanager
def open_ray_session() -> Iterator[Callable[[], None]]:
    """Join or start a cluster for the block, or for ``share_session``, or use this process's one.

    Yields a function that raises ResourceError if Ray's own processes, sockets or folders on this machine are
    gone. Ray itself would wait for them, in some calls without end.

    Raises:
        ResourceError: the cluster cannot be joined or started, or has broken since.
    """
    ours = not get_cluster_address()
    for name, value in (BOUNDED | UNSEEN | (LOOPBACK if ours else {})).items():  # Ray reads it on import
        os.environ.setdefault(name, value)
    import ray

    with ExitStack() as alone:
        if not ray.is_initialized():
            guard_token(make=ours)
            (_OPEN[-1] if _OPEN else alone).enter_context(_open_cluster())
        check = build_session_check()
        check()  # a shared session may have broken since
        yield check


@contextmanager
def _open_cluster() -> Iterator[None]:
    """Join the named cluster, or start one.

    Another cluster that runs here has its own folder, and is left alone.
    """
    import ray

    with ExitStack() as stack:
        if address := get_cluster_address():
            _join_cluster(address)
            stack.callback(ray.shutdown)
        else:
            _start_ray(stack)
        # Ray itself prints dozens of lines of its own log, some of them twice.
        ray._private.worker.print_to_stdstream = _print_first_line
        yield


def _start_ray(stack: ExitStack) -> None:
    """Start Ray on this machine until the stack is closed."""
    from ray.exceptions import RayError

    try:
        stack.enter_context(run_local_ray())
    except (ConnectionError, RayError, RuntimeError) as error:
        raise ResourceError(_format_start_error(error)) from error
    except Exception as error:
        if type(error) is not Exception:  # Ray raises a bare Exception if one of its processes does not start
            raise
        raise ResourceError(_format_start_error(error)) from error


def _format_start_error(error: Exception) -> str:
    """Return the message if Ray does not start for another reason than time."""
    return (
        f"Ray did not start on this machine: {str(error).strip().partition(chr(10))[0]} One of its processes may have been "
        f"killed. What was finished is kept; run `dvc repro` to go on."
    )


def require_cluster() -> None:
    """Raise a ResourceError if ``RAY_ADDRESS`` names a cluster but nothing answers there."""
    if (address := get_cluster_address()) and (reason := find_connection_problem(address)):
        raise _build_join_error(address, reason)


def _join_cluster(address: str) -> None:
    """Join the cluster at an address.

    Raises:
        ResourceError: nothing answers there, or it refuses.
    """
    import ray
    from ray.exceptions import RayError

    reason = find_connection_problem(address)  # Ray itself would try for minutes
    if reason is None:
        # Nodes elsewhere have neither this process's environment nor its code. They log to the same server.
        runtime_env = {
            "env_vars": get_server_environment() | get_forwarded_variables(),
            "py_modules": [str(SOURCES)],
        }
        try:
            start_patiently(partial(init_ray, address=address, runtime_env=runtime_env), ray.shutdown)
            return
        except (ConnectionError, RayError, ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
    raise _build_join_error(address, reason)


def _build_join_error(address: str, reason: str) -> ResourceError:
    return ResourceError(
        f"Ray's cluster at RAY_ADDRESS={address!r} cannot be joined: {reason}. If it has ended, `unset RAY_ADDRESS`: Ray then "
        f"starts on this machine. If it is to run, start its head, and have its token in ~/.ray/auth_token (or in the file that "
        f"RAY_AUTH_TOKEN_PATH names)."
    )


def _print_first_line(data: Mapping[str, Any], **how: Any) -> None:
    """Print the first line of Ray's message about a worker or node that died."""
    print(f"Ray: {data['lines'][0].partition(chr(10))[0]}", file=sys.stderr)


def _write_token(path: Path) -> None:
    """Write a new token that only its owner can read.

    A token that another process has just written is kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)  # readable only by its owner
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(secrets.token_hex(32))
    with suppress(FileExistsError):
        os.link(name, path)
    Path(name).unlink()


def guard_token(*, make: bool) -> None:
    """Make Ray's token readable only by its owner. Ray itself would create one that all users can read.

    Args:
        make: whether to create a token if there is none.

    Raises:
        ConfigError: others can read it, and this user cannot change that.
        ResourceError: the home folder is missing or cannot be written.
    """
    if os.environ.get("RAY_AUTH_MODE") != "token" or "RAY_AUTH_TOKEN" in os.environ:
        return
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    path = Path(named) if named else Path.home() / ".ray" / "auth_token"
    if make and not named and not path.exists():
        try:
            _write_token(path)
        except OSError as error:
            raise ResourceError(
                f"Ray's token cannot be written to {str(path)!r}: {error.strerror}. Set HOME to a folder that you can "
                "write, or RAY_AUTH_TOKEN to a secret text of 32 characters or more."
            ) from error
    if path.exists() and path.stat().st_mode & 0o077:
        try:
            path.chmod(0o600)
        except OSError as error:
            raise ConfigError(
                f"Others can read the token of Ray in {str(path)!r} (mode {path.stat().st_mode & 0o777:04o}), and you cannot "
                f"change that: {error.strerror}. Have its owner run `chmod 600` on it, or make a token of your own."
            ) from error
