"""Check whether Ray still runs on this machine: its own processes, its sockets and its folders.

Without them Ray starts no worker, and waits for one forever. Its raylet does not notice that its sockets are
gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from caramel.errors import ResourceError
from caramel.runtime.ray.temp_dirs import format_removed

SERVICES = ("gcs_server", "raylet")  # Ray needs all of them
LOOK = 2.0  # seconds between checks


def build_session_check() -> Callable[[], None]:
    """Return a function that raises ResourceError if this process's Ray session has broken here.

    It may be called at any rate, and checks at most every ``LOOK`` seconds. The first call checks.
    """
    import ray

    node_id = ray.get_runtime_context().get_node_id()
    last = -LOOK

    def check_session() -> None:
        nonlocal last
        if time.monotonic() - last < LOOK:
            return
        last = time.monotonic()
        node = ray._private.worker._global_node  # read each time, because Tune pickles the caller
        if service := _find_dead_service(node, node_id):
            raise ResourceError(
                f"Ray's process {service!r} on this machine was killed; it may have run out of memory. What "
                f"was finished is kept; run `dvc repro` to go on."
            )
        if path := find_missing(_list_session_paths(node)):
            again = "" if _list_services(node) else " Start Ray on this machine again first."
            raise ResourceError(format_removed(path) + again)

    return check_session


def find_missing(paths: Iterable[str]) -> str | None:
    """Return the first of the paths that does not exist.

    One that this user may not access counts as existing.
    """
    for path in paths:
        try:
            Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return path
        except OSError:
            continue
    return None


def _list_session_paths(node: Any) -> list[str]:
    """Return the folders and sockets of a session, outermost first."""
    sockets = [node.raylet_socket_name, node.plasma_store_socket_name]
    return [node.get_session_dir_path(), node.get_logs_dir_path(), *sockets]


def _list_services(node: Any) -> list[tuple[str, Any]]:
    """Return (name, process) of each service that this process has started; none for others' clusters."""
    return [(name, info.process) for name in SERVICES for info in node.all_processes.get(name, ())]


def _find_dead_service(node: Any, node_id: str) -> str | None:
    """Return the name of a service that has ended."""
    import ray

    if services := _list_services(node):
        return next((name for name, process in services if process.poll() is not None), None)
    # Started by others: use the cluster's state of this machine.
    alive = any(known["NodeID"] == node_id and known["Alive"] for known in ray.nodes())
    return None if alive else "raylet"
