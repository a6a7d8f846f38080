"""A run whose process was killed is ended by the next process of its machine, and no other run is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from caramel.runtime.mlflow import tracking
from caramel.runtime.mlflow.killed_runs import BOOT_ID, ENDED, PROCESS, describe_process, end_orphaned_runs

pytestmark = pytest.mark.skipif(not BOOT_ID.exists(), reason="processes are told apart by Linux's /proc")
WORK = """
import os, time, mlflow
from caramel.runtime.mlflow import tracking
with tracking.run("killed", key="old key", params={}):
    mlflow.log_metric("loss", 1.0)
    tracking.create_run(tracking.plan_run("planned", key="old parent", params={}))
    print("works", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    return tmp_path


@pytest.fixture
def client(project: Path) -> Iterator[tuple[Any, str]]:
    with tracking.open_store(project) as (client, experiment):
        yield client, experiment


@pytest.fixture(scope="module")
def gone() -> dict[str, Any]:
    """Return the tag of a process of this machine that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return {**read_tag(), "pid": process.pid}


def read_tag() -> dict[str, Any]:
    tag: dict[str, Any] = json.loads(describe_process()[PROCESS])
    return tag


def list_states(client: Any, experiment: str) -> dict[str, str]:
    return {run.info.run_name: run.info.status for run in client.search_runs([experiment])}


def test_runs_of_a_process_that_sigkill_ended_are_killed_by_the_next_one_and_live_ones_run_on(
    project: Path, client: tuple[Any, str]
) -> None:
    works = subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE, text=True)
    assert works.stdout is not None
    assert works.stdout.readline() == "works\n"
    logged = int(1000 * time.time())
    with tracking.run("live", key="live", params={}):
        assert tracking.end_killed_runs(project) == 0
        works.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, works.pid, os.WEXITED | os.WNOWAIT)  # it stays as a zombie
        assert list_states(*client) == {"killed": "RUNNING", "planned": "SCHEDULED", "live": "RUNNING"}
        time.sleep(0.05)
        tracking._end_killed_runs_once.cache_clear()
        tracking.create_run(tracking.plan_run("next", key="new key", params={}))
        assert list_states(*client) == {
            "killed": "KILLED",
            "planned": "KILLED",
            "live": "RUNNING",
            "next": "SCHEDULED",
        }
    works.wait()
    runs = {run.info.run_name: run for run in client[0].search_runs([client[1]])}
    assert runs["killed"].data.tags[ENDED].startswith(f"process {works.pid} on ")
    assert runs["killed"].data.tags[ENDED].endswith("it was killed")
    assert runs["killed"].info.end_time <= logged  # its last sign of life, not the time of the search
    with tracking.run("killed", key="old key", params={}) as resumed:
        assert ENDED not in client[0].get_run(resumed.info.run_id).data.tags
    assert list_states(*client)["killed"] == "FINISHED"


@pytest.mark.parametrize("is_shared", [True, False])
def test_only_a_process_that_is_known_to_be_gone_ends_a_run(
    is_shared: bool, client: tuple[Any, str], gone: dict[str, Any]
) -> None:
    alive = read_tag()
    tags = {
        "gone": gone,
        "other process by its id": {**alive, "started": alive["started"] - 1},
        "before the restart": {**gone, "boot": "another"},
        "alive": alive,
        "another user's": {**alive, "pid": 1, "started": int(Path("/proc/1/stat").read_text().split()[21])},
        "another container": {**gone, "namespace": "pid:[1]"},
        "half a tag": {"pid": gone["pid"]},
        "no tag": None,
    }
    for name, tag in tags.items():
        known = {} if tag is None else {PROCESS: json.dumps(tag)}
        client[0].create_run(client[1], tags=known, run_name=name)
    client[0].create_run(client[1], tags={PROCESS: "[" * 10}, run_name="no JSON")
    done = client[0].create_run(client[1], tags={PROCESS: json.dumps(gone)}, run_name="done")
    client[0].set_terminated(done.info.run_id)
    killed = {"gone", "other process by its id"} | (set() if is_shared else {"before the restart"})
    assert end_orphaned_runs(*client, is_shared=is_shared) == len(killed)
    states = list_states(*client)
    assert {name for name, state in states.items() if state == "KILLED"} == killed
    assert {states[name] for name in states.keys() - killed - {"done"}} == {"RUNNING"}
    assert states["done"] == "FINISHED"


def test_a_run_that_another_process_resumes_meanwhile_goes_on(
    client: tuple[Any, str], gone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = client[0].create_run(client[1], tags={PROCESS: json.dumps(gone)}, run_name="resumed")
    search = client[0].search_runs

    def search_then_resume(*args: Any, **wanted: Any) -> Any:
        found = search(*args, **wanted)
        client[0].set_tag(run.info.run_id, PROCESS, describe_process()[PROCESS])
        return found

    monkeypatch.setattr(client[0], "search_runs", search_then_resume)
    assert end_orphaned_runs(*client, is_shared=True) == 0
    assert client[0].get_run(run.info.run_id).info.status == "RUNNING"


def test_without_a_store_none_is_made(project: Path) -> None:
    assert tracking.end_killed_runs(project) == 0
    assert not (project / "mlruns").exists()
