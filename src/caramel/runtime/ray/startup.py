"""Start Ray patiently: a start that times out is retried with a longer wait.

On a busy machine, Ray's processes start slowly. Ray itself gives up after 30 seconds. Its raylet ends if one
of its Python agents needs more than 15 seconds. No setting changes that; only a retry helps, and it is made
at once.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psutil

from caramel.errors import ResourceError
from caramel.io.disk_space import find_volume_problem
from caramel.runtime.fork_client import FORKING
from caramel.runtime.ray.temp_dirs import clear_session_folder, create_session_folder, format_removed

WAITS = (30, 60, 120, 240)  # seconds that Ray's processes may take, per try; the first is Ray's own value
LOOK = 2  # seconds between checks whether they run
_SLOW = re.compile(r"timed?[ -]?out|failed to start|failed to startup", re.IGNORECASE)
Result = TypeVar("Result")


class SlowStartError(Exception):
    """Ray's processes did not start in time."""


def is_slow_start(message: str) -> bool:
    """Return whether a message of Ray says that one of its processes did not start in time."""
    return _SLOW.search(message) is not None


def build_wait_variables(seconds: int) -> dict[str, str]:
    """Return the environment variables that make Ray's processes wait this long for each other.

    ``RAY_raylet_start_wait_time_s`` is how long ``ray start`` waits for its raylet. It has no effect below
    30. ``RAY_gcs_server_port_wait_time_s`` is how long it waits for the head's server. The others say how
    long the raylet waits for a worker and an agent that it started, and all processes for a head that does
    not answer.
    """
    return {
        "RAY_raylet_start_wait_time_s": str(seconds),
        "RAY_gcs_server_port_wait_time_s": str(seconds),
        "RAY_worker_register_timeout_seconds": str(max(WAITS)),
        "RAY_agent_register_timeout_ms": str(1000 * max(WAITS)),
        "RAY_gcs_rpc_server_reconnect_timeout_s": str(2 * max(WAITS)),
    }


def start_patiently(
    start: Callable[[int], Result], clean_up: Callable[[], None], waits: Sequence[int] = WAITS
) -> Result:
    """Return the result of ``start``, calling it again with a longer wait each time it times out.

    Args:
        start: receives the seconds that it may wait, and raises SlowStartError if that was too short.
        clean_up: called after each failed try; ends what the try left running.
        waits: seconds of each try.

    Raises:
        ResourceError: the last try also timed out.
    """
    for number, (seconds, longer) in enumerate(zip(waits, [*waits[1:], None], strict=True), 1):
        try:
            return start(seconds)
        except SlowStartError as error:
            clean_up()
            if longer is None:
                raise ResourceError(
                    f"Ray did not start on this machine, in {len(waits)} tries of up to {seconds} s: {error} The machine may be "
                    f"too busy, or one of Ray's processes was killed. What was finished is kept; run the command again."
                ) from error
            print(
                f"Ray did not start within {seconds} s: {error} The machine may be busy. "
                f"It is tried again, for up to {longer} s (try {number + 1} of {len(waits)}).",
                file=sys.stderr,
                flush=True,
            )
    raise AssertionError("there is at least one try")


@contextmanager
def run_local_ray(**options: Any) -> Iterator[None]:
    """Run Ray on this machine for the block, with its temporary files in a private folder.

    Args:
        options: further options of ``ray.init``.

    Raises:
        ResourceError: Ray does not start, or its folder is not private.
    """
    with create_session_folder() as folder:
        start_patiently(partial(_init_here, folder, options), partial(_clean_up, folder))
        try:
            yield
        finally:
            _stop_ray()


def _stop_ray() -> None:
    """Call ``ray.shutdown``.

    If its folder cannot be written, end the rest, so that it is not tried again at exit.
    """
    import ray
    from ray._private import worker

    try:
        ray.shutdown()
    except OSError:
        if (node := worker._global_node) is not None:
            node.kill_all_processes(check_alive=False, allow_graceful=True, wait=True)
            worker._global_node = None
        raise


def _init_here(folder: Path, options: Mapping[str, Any], seconds: int) -> None:
    """Call ``init_ray`` for a cluster on this machine; raise SlowStartError as soon as its raylet has ended.

    Raises:
        ResourceError: the folder was removed meanwhile, or its volume is full or read-only.
    """
    from ray._private import services

    # Clients of a failed start's head are in reference cycles. One that queries a head that is gone ends the
    # process when it has had no answer for ``gcs_rpc_server_reconnect_timeout_s``.
    gc.collect()
    look, until = services.get_node, time.monotonic() + seconds

    def get_node(address: str, node: str) -> Any:
        """Return the head's information on a node, as Ray's own function does."""
        while True:
            try:
                return look(address, node)
            except RuntimeError as error:  # the head does not know the node yet
                if not _has_raylet():
                    raise SlowStartError("its raylet has ended.") from error
                if time.monotonic() > until:
                    raise SlowStartError("its raylet timed out.") from error

    services.get_node = get_node
    try:
        environment = _build_runtime_env() | options.get("runtime_env", {})
        init_ray(
            seconds, address="local", _temp_dir=str(folder), **{**options, "runtime_env": environment or None}
        )
    except Exception as error:
        if not folder.exists():
            raise ResourceError(format_removed(str(folder))) from error
        if reason := find_volume_problem(folder):
            raise ResourceError(f"Ray did not start on this machine: {reason}") from error
        raise
    finally:
        services.get_node = look


def has_plain_python() -> bool:
    """Return whether the path to this Python is one shell word: Ray starts workers with ``bash -c``."""
    return re.search(r"[^\w@%+=:,./-]", sys.executable) is None


def _build_runtime_env() -> dict[str, str]:
    """Return the runtime environment of local workers; they are forks where stages are.

    Ray quotes all words of its command except the Python path.
    """
    if FORKING not in os.environ and has_plain_python():
        return {}
    return {"py_executable": shlex.quote(os.environ.get(FORKING, sys.executable))}


def _has_raylet() -> bool:
    """Return whether a raylet of this process is running."""
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if child.name() == "raylet" and child.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def init_ray(seconds: int, **options: Any) -> None:
    """Call ``ray.init`` with a time limit for its processes.

    Raises:
        SlowStartError: they did not start in time; some of them may still run.
        Exception: any other exception of Ray.
    """
    import ray
    from ray.exceptions import RayError

    os.environ |= build_wait_variables(seconds)
    # Ray read the variables on import. The second one ends the whole process when its time is over.
    waits = {"raylet_start_wait_time_s": LOOK, "gcs_rpc_server_reconnect_timeout_s": 2 * max(WAITS)}
    ray._raylet.Config.initialize(json.dumps(waits))
    try:
        quiet = {"log_to_driver": False, "logging_level": "error", "include_dashboard": False}
        ray.init(job_config=_make_job_config(), **quiet, **options)
    except (ConnectionError, RayError, RuntimeError) as error:
        _raise_if_slow(error)
        raise
    except Exception as error:
        if type(error) is Exception:  # Ray raises a bare Exception if one of its processes does not start
            _raise_if_slow(error)
        raise


def _make_job_config() -> Any:
    """Return job settings with which workers look for modules only in folders where this process does.

    By default Ray searches the working folder first, and would take a project's own ``torch.py`` for PyTorch.
    """
    from ray.job_config import JobConfig

    class Config(JobConfig):  # type: ignore[misc]
        def _serialize(self) -> bytes:
            job: Any = self
            known = [os.path.realpath(folder) for folder in sys.path]
            job._py_driver_sys_path = [folder for folder in job._py_driver_sys_path if folder in known]
            return bytes(super()._serialize())

    return Config()


def _raise_if_slow(error: Exception) -> None:
    if is_slow_start(str(error)):
        raise SlowStartError(str(error).strip().partition("\n")[0]) from error


def _clean_up(folder: Path) -> None:
    """End what a failed start left: Ray's processes, and its files in the session's folder."""
    _stop_ray()
    clear_session_folder(folder)
