"""Runs go to Weights & Biases with parameters, metrics with steps and tags, and each of them once."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from caramel.cli.commands import run_cli as caramel
from caramel.runtime.mlflow import tracking

TARGET = "wandb://team/project"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with a finished run, one that failed and one that is not finished."""
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    params = {"lr": 0.1, "steps": 200, "seeds": [1, 2], "base": "dual:x"}
    with tracking.run("first", key="1", params=params, tags={"stage": "finetune", "long": "x" * 70}):
        for step in (20, 10):
            mlflow.log_metrics({"loss": 1 / step, "group": step / 100}, step=step)
        mlflow.log_metric("kept_step", 20)
    with pytest.raises(ZeroDivisionError), tracking.run("second", key="2", params={}):
        raise ZeroDivisionError
    tracking.create_run(tracking.plan_run("waiting", key="3", params={}))
    return tmp_path


class Recorder(ModuleType):
    """A double of the calls of wandb that the export uses; it records them."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.errors = SimpleNamespace(Error=type("Error", (Exception,), {}))
        self.begun: list[dict[str, Any]] = []
        self.points: list[tuple[str, int, dict[str, float]]] = []
        self.ended: dict[str, int] = {}
        self.refuses = ""

    def Settings(self, **settings: Any) -> dict[str, Any]:
        return settings

    def init(self, **wanted: Any) -> Recorder:
        if wanted["name"] == self.refuses:
            raise self.errors.Error("api_key=0123456789 is not known")
        self.begun.append(wanted)
        return self

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def log(self, values: dict[str, float], step: int) -> None:
        self.points.append((self.begun[-1]["name"], step, values))

    def finish(self, exit_code: int) -> None:
        self.ended[self.begun[-1]["name"]] = exit_code


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    double = Recorder()
    monkeypatch.setitem(sys.modules, "wandb", double)
    return double


def export(*more: str) -> int:
    return caramel(["tracking", "export", "mlruns", TARGET, *more])


def test_finished_runs_are_exported_once_with_all_that_was_logged(
    project: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "first: 4 parameters, 3 metrics\nsecond: 0 parameters, 0 metrics\n"
    assert export("--dry-run") == 0
    assert (
        capsys.readouterr().out
        == f"{lines}2 runs would be exported; 0 were exported before, 1 are not finished.\n"
    )
    assert recorder.begun == []
    assert export() == 0
    assert capsys.readouterr().out == f"{lines}2 runs exported; 0 were exported before, 1 are not finished.\n"
    first = recorder.begun[0]
    assert (first["entity"], first["project"], first["job_type"]) == ("team", "project", "finetune")
    assert (first["resume"], first["settings"]["x_disable_stats"]) == ("allow", True)
    config = {"lr": 0.1, "steps": 200, "seeds": [1, 2], "base": "dual:x"}.items()
    assert config <= first["config"].items()
    assert first["config"]["tags"]["long"] == "x" * 70
    assert first["tags"] == ["git.commit:unknown", "stage:finetune"]  # W&B's tags have 64 characters
    assert recorder.points == [
        ("first", 0, {"kept_step": 20.0}),
        ("first", 10, {"loss": 0.1, "group": 0.1}),
        ("first", 20, {"loss": 0.05, "group": 0.2}),
    ]
    assert recorder.ended == {"first": 0, "second": 1}
    assert export() == 0
    assert capsys.readouterr().out == "0 runs exported; 2 were exported before, 1 are not finished.\n"
    assert len(recorder.begun) == 2


def test_an_export_that_was_refused_goes_on_with_the_rest_under_the_same_ids(
    project: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.refuses = "second"
    assert export() == 1
    assert "Run 'second' cannot be exported to W&B: api_key=" in capsys.readouterr().err
    recorder.refuses = ""
    assert export() == 0
    with tracking.run("first", key="1", params={}):  # resumed, so that it has another end
        pass
    assert export() == 0
    names = [run["name"] for run in recorder.begun]
    assert names == ["first", "second", "first"]
    assert recorder.begun[0]["id"] == recorder.begun[2]["id"]


def test_one_experiment_is_exported_alone_and_an_unknown_one_is_named(
    project: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    with tracking.open_store(project) as (client, _):
        other = client.create_experiment("other")
        client.set_terminated(client.create_run(other, run_name="alone").info.run_id)
    assert export("--experiment", "other") == 0
    assert [run["name"] for run in recorder.begun] == ["alone"]
    capsys.readouterr()
    assert export("--experiment", "none") == 1
    assert "'mlruns' has no experiment 'none'. It has: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "target", ["team/project", "wandb://team", "wandb://team/project/run", "https://wandb.ai/a/b"]
)
def test_a_target_that_is_no_project_is_refused(
    target: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert caramel(["tracking", "export", "mlruns", target]) == 1
    assert "Give wandb://ENTITY/PROJECT" in capsys.readouterr().err


def test_without_wandb_the_extra_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert export() == 1
    assert "pip install 'caramel[wandb]'" in capsys.readouterr().err


def test_wandb_itself_takes_the_runs_in_its_offline_mode(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed: pip install 'caramel[wandb]'")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    assert export() == 0
    history = []
    for path in Path("wandb").glob("offline-run-*/*.wandb"):
        data, start = path.read_bytes(), 7  # LevelDB's log behind a header: checksum, length, type, record
        while start < len(data):
            end = start + 7 + int.from_bytes(data[start + 4 : start + 6], "little")
            record = Record.FromString(data[start + 7 : end])
            if record.WhichOneof("record_type") == "history":
                items = {item.key or item.nested_key[0]: item.value_json for item in record.history.item}
                history.append((int(items["_step"]), items.get("loss"), items.get("kept_step")))
            start = end
    assert sorted(history) == [(0, None, "20"), (10, "0.1", None), (20, "0.05", None)]
