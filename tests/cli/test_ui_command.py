"""`caramel ui` shows the project's runs on this machine only."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from commands import CARAMEL, find_stray_stores

from caramel.runtime.mlflow.store import EXPERIMENT, get_store_uri, open_client

Call = Callable[..., tuple[int, str, str]]


def test_ui_says_so_if_the_port_is_taken(call: Call) -> None:
    Path("mlruns").mkdir()
    Path("mlruns", "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = call("ui", "--port", str(port))
    assert code == 1
    assert f"Port {port} on 127.0.0.1 cannot be used" in err


def test_ui_listens_on_this_machine_only_and_starts_no_jobs(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mlruns").mkdir()
    with closing(sqlite3.connect("mlruns/mlflow.db")) as store:
        store.execute("CREATE TABLE runs (status TEXT)")
    seen: dict[str, list[str] | dict[str, str]] = {}

    def instead(command: list[str], *, env: dict[str, str], check: bool) -> subprocess.CompletedProcess[str]:
        seen.update(command=command, env=env)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", instead)
    assert call("ui", "--port", "5099")[0] == 0
    command = " ".join(seen["command"])
    assert "--host 127.0.0.1 --port 5099 --workers 1" in command
    environment = dict(seen["env"])
    assert environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
    for name in ("MLFLOW_BACKEND_STORE_URI", "MLFLOW_REGISTRY_STORE_URI"):
        assert environment[name].startswith(f"sqlite+pysqlite:///{Path('mlruns/mlflow.db').resolve()}")


def test_ui_shows_no_user_of_the_machine_the_password_of_a_database(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "sqlite:///runs.db?password=s3cret"  # of which the driver is at hand
    seen: list[str] = []

    def instead(command: list[str], *, env: dict[str, str], check: bool) -> subprocess.CompletedProcess[str]:
        assert env["MLFLOW_BACKEND_STORE_URI"] == env["MLFLOW_REGISTRY_STORE_URI"] == address
        seen.extend(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setenv("CARAMEL_TRACKING_URI", address)
    monkeypatch.setattr(subprocess, "run", instead)
    assert call("ui", "--port", "5099")[0] == 0
    assert seen
    assert "s3cret" not in " ".join(seen)


@pytest.mark.timeout(200)
def test_ui_shows_runs_and_registered_models_of_the_projects_store_and_leaves_none_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    client = open_client(get_store_uri(tmp_path / "mlruns"))
    client.create_registered_model("tuned")
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    client.create_run(experiment.experiment_id, run_name="first")
    environment = dict(os.environ)
    (tmp_path / "mlflow.py").write_text("raise SystemExit('a file of the project was run')", encoding="utf-8")
    environment["MLFLOW_REGISTRY_URI"] = environment["MLFLOW_REGISTRY_STORE_URI"] = (
        f"sqlite:///{tmp_path}/other.db"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [CARAMEL, "ui", "--port", str(port)],
        cwd=tmp_path,
        env=environment,
        stdout=-3,
        stderr=-3,
        start_new_session=True,
    )
    try:
        limit = time.monotonic() + 120
        models = None
        while models is None:
            assert process.poll() is None
            assert time.monotonic() < limit
            with suppress(OSError):
                models = _ask(port, "registered-models/search")
            time.sleep(0.3)
        assert [model["name"] for model in models["registered_models"]] == ["tuned"]
        runs = _ask(port, "runs/search", {"experiment_ids": ["1"]})["runs"]
        assert [run["info"]["run_name"] for run in runs] == ["first"]
    finally:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        process.wait(30)
    assert not find_stray_stores(tmp_path, tmp_path / "mlruns")
    assert not (tmp_path / "other.db").exists()


def _ask(port: int, path: str, body: object = None) -> Any:
    """Return the answer of an MLflow server on this machine."""
    request = Request(
        f"http://127.0.0.1:{port}/api/2.0/mlflow/{path}",
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with build_opener(ProxyHandler({})).open(request, timeout=20) as reply:
        return json.load(reply)
