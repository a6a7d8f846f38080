"""From a pin to the runs that read its data, and back by a tag."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from commands import run_command

from caramel.cli.commands import run_cli as caramel
from caramel.release import pin as pins
from caramel.release.runs import list_runs, tag_runs
from caramel.runtime.mlflow import killed_runs, tracking
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.rejects import REJECTS


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two outputs, and the runs that read one of them, both, and another version of one."""
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    outs = []
    for name in ("refine", "assemble"):
        rows = [{"id": name, "stage": "refine", "reason": "surplus", "text": "x"}]
        path = tmp_path / "data" / name / "rejects.parquet"
        write_table(REJECTS, build_frame(REJECTS, rows), path)
        outs.append({"path": f"data/{name}", "md5": pins.compute_dvc_hash(path.parent)})
    (tmp_path / "params.yaml").write_text("profile: smoke\n", encoding="utf-8")

    def lock(outs: list[dict[str, str]]) -> None:
        stages = {"make": {"cmd": "make", "outs": outs}}
        (tmp_path / "dvc.lock").write_text(json.dumps({"schema": "2.0", "stages": stages}), encoding="utf-8")

    other = {"path": "data/refine", "md5": "0" * 32 + ".dir"}
    for name, of, data in (
        ("one", outs, ["data/assemble"]),
        ("both", outs, ["data/assemble", "data/refine"]),
        ("mixed", [other, outs[1]], ["data/assemble", "data/refine"]),
        ("none", outs, []),
    ):
        lock(of)
        with tracking.run(name, key=name, params={"seed": 7}, data=data, tags={"stage": "finetune"}):
            pass
    lock(outs)
    return tmp_path


def test_runs_of_a_pin_are_those_that_read_its_data_and_no_other(project: Path) -> None:
    found = list_runs(pins.create_pin("v1", project), project)
    assert found["name"].tolist() == ["one", "both"]
    assert set(found["stage"]) == {"finetune"}
    assert set(found["seed"]) == {"7"}


def test_a_pin_tags_its_runs_so_that_a_run_says_its_pin(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import mlflow

    assert caramel(["pin", "v1"]) == 0
    assert "2 tracked runs read this version's data; they have the tag 'pin.v1'" in capsys.readouterr().out
    client = mlflow.MlflowClient(tracking.get_tracking_uri(project))
    tagged = client.search_runs(["1"], filter_string="tags.`pin.v1` != ''")
    assert {run.info.run_name for run in tagged} == {"one", "both"}
    assert caramel(["runs", "v1", "--out", "runs.csv"]) == 0
    assert len(Path("runs.csv").read_text().splitlines()) == 3


def test_pin_and_runs_find_the_runs_in_processes_that_did_nothing_before(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DVC_ROOT")
    other = dict.fromkeys(("MLFLOW_REGISTRY_URI", "MLFLOW_TRACKING_URI"), f"sqlite:///{tmp_path}/other.db")
    done = run_command(project, "pin", "v1", environment=other)
    assert "2 tracked runs read this version's data; they have the tag 'pin.v1'" in done.stdout, done.stderr
    done = run_command(project, "runs", "v1", "--out", "runs.csv", environment=other)
    assert (done.returncode, done.stdout) == (0, "Runs of version v1: 2. Written to 'runs.csv'.\n"), (
        done.stderr
    )
    lines = (project / "runs.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in lines] == ["name", "one", "both"]
    assert not (tmp_path / "other.db").exists()
    shutil.rmtree(project / "mlruns")
    done = run_command(project, "runs", "v1")
    assert done.stdout == "No tracked run read the data of version v1 alone.\n", done.stderr
    assert not (project / "mlruns").exists()


def test_a_project_without_runs_is_pinned_without_making_a_store(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path_factory.mktemp("other") / "project"
    shutil.copytree(project, other, ignore=shutil.ignore_patterns("mlruns"))
    monkeypatch.chdir(other)
    assert tag_runs(pins.create_pin("v1", other), other) == 0
    assert caramel(["runs", "v1"]) == 0
    assert not (other / "mlruns").exists()
    assert "No tracked run read the data of version v1 alone." in capsys.readouterr().out


def test_a_pin_that_is_not_there_is_an_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert caramel(["runs", "v9"]) == 1
    assert "v9" in capsys.readouterr().err


def test_runs_that_a_killed_process_left_as_running_are_ended_first(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    pins.create_pin("v1", project)
    with tracking.open_store(project) as (client, experiment):
        tag = json.loads(killed_runs.describe_process()[killed_runs.PROCESS]) | {"pid": gone.pid}
        left = client.create_run(experiment, tags={killed_runs.PROCESS: json.dumps(tag)}).info.run_id
        for message in ("Runs whose process was killed, now ended as KILLED: 1.\n", ""):
            assert caramel(["runs", "v1"]) == 0
            assert capsys.readouterr().err == message
        assert client.get_run(left).info.status == "KILLED"
