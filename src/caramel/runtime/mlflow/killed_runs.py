"""End the runs of killed processes, which could not do so themselves.

A run has its process as a tag. Whether that process is gone can be told only on its machine, and in its container.
So a run of another host is never ended, nor one without the tag.
"""

from __future__ import annotations

import json
import os
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caramel.io.readers import try_parse_json
from caramel.runtime.mlflow.retry import iter_pages, retry_on_race

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PROCESS = "caramel.process"  # tag: the process that works on the run, as ``describe_process`` writes it
ENDED = "caramel.ended"  # tag: why another process ended the run
UNFINISHED = ("RUNNING", "SCHEDULED")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # differs between machines, and after each start of one
NAMESPACE = Path("/proc/self/ns/pid")  # link to the container's table of processes


def describe_process() -> dict[str, str]:
    """Return this process as the tag of the runs that it works on; no tag on a system without Linux's ``/proc``."""
    here = _read_machine()
    if here is None:
        return {}
    pid = os.getpid()
    process = {**here, "host": socket.gethostname(), "pid": pid, "started": _read_start(pid)}
    return {PROCESS: json.dumps(process)}


def end_orphaned_runs(client: MlflowClient, experiment: str, *, is_shared: bool) -> int:
    """End the unfinished runs whose process is gone as ``KILLED``, with the reason as a tag; return their number.

    A run's end is its last sign of life, so that its duration is that of its work.

    Args:
        client: client of the store.
        experiment: id of the experiment.
        is_shared: whether other machines may write to the store.
    """
    killed = 0
    for status in UNFINISHED:
        wanted = {"experiment_ids": [experiment], "filter_string": f"attributes.status = '{status}'"}
        for run in list(iter_pages(client.search_runs, **wanted)):
            if _explain_end(run, is_shared):
                current = client.get_run(run.info.run_id)  # another process may have resumed it meanwhile
                if reason := _explain_end(current, is_shared):
                    _end_run(client, current, reason)
                    killed += 1
    return killed


def _end_run(client: MlflowClient, run: Run, reason: str) -> None:
    client.set_tag(run.info.run_id, ENDED, reason)
    end = max([run.info.start_time, *(metric.timestamp for metric in run.data._metric_objs)])
    retry_on_race(partial(client.set_terminated, run.info.run_id, "KILLED", end))


def _explain_end(run: Run, is_shared: bool) -> str:
    """Return why an unfinished run has no process any more; "" if it may have one."""
    here = _read_machine()
    match try_parse_json(run.data.tags.get(PROCESS, "").encode()):
        case {"boot": boot, "namespace": space, "host": host, "pid": int(pid), "started": int(started)} if (
            here
        ):
            of_process = f"process {pid} on {host}"
        case _:
            return ""
    if run.info.status not in UNFINISHED:
        return ""
    if boot != here["boot"]:
        # SQLite's database in a project's folder works for one machine only, or was copied here with the folder.
        return "" if is_shared else f"{of_process} is gone: the machine was started again"
    is_gone = space == here["namespace"] and not _is_alive(pid, started)
    return f"{of_process} is gone: it was killed" if is_gone else ""


def _read_machine() -> dict[str, Any] | None:
    """Return what two processes have in common that see each other's ids; None if that cannot be told."""
    try:
        return {"boot": BOOT_ID.read_text().strip(), "namespace": str(NAMESPACE.readlink())}
    except OSError:
        return None


def _is_alive(pid: int, started: int) -> bool:
    """Return whether a process of this id exists that started then; another one may have its id by now."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass  # of another user
    start = _read_start(pid)
    return start is None or start == started


def _read_start(pid: int) -> int | None:
    """Return when a process started, in ticks since the machine's start; −1 for one that ended and has only its id.

    None if it is hidden from this user.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return -1 if fields[0] in "ZX" else int(fields[19])
