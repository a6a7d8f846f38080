"""`dvc exp run`, at once and from the queue, runs what its change reaches; its runs carry its name, and have one parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from remote_projects import dvc, run

from caramel.running.tracking import EXPERIMENT, PARENT, tracking_uri

pytestmark = pytest.mark.slow
GRAPH = """stages:
  draw:
    cmd: {python} draw.py
    params: [draw.seed]
    deps: [draw.py]
    outs: [data/draw.txt]
  train:
    cmd: {python} train.py
    params: [train.lr]
    deps: [train.py, data/draw.txt]
    outs: [data/train.txt]
"""
DRAW = """
from pathlib import Path
Path("data").mkdir(exist_ok=True)
Path("data/draw.txt").write_text("drawn")
"""
TRAIN = """
from pathlib import Path
import mlflow
from caramel.running import tracking
from caramel.running.quiet import be_quiet
from caramel.storage.plain_yaml import read_yaml

be_quiet()
lr = read_yaml(Path("params.yaml"), "")["train"]["lr"]
with tracking.run("train", key=f"lr {lr}", params={"lr": lr}, data=["data/draw.txt"], tags={"stage": "train"}):
    mlflow.log_metric("group", 0.5)
Path("data/train.txt").write_text(f"trained with {lr}")
"""
WAIT = 120.0  # seconds for what is queued


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    root = tmp_path / "project"
    root.mkdir()
    for name, text in {
        "dvc.yaml": GRAPH.format(python=sys.executable),
        "draw.py": DRAW,
        "train.py": TRAIN,
        "params.yaml": "draw: {seed: 1}\ntrain: {lr: 0.1}\n",
        ".gitignore": "/data/\n/mlruns/\n/work/\n",
        ".dvcignore": "/mlruns\n/work\n",
    }.items():
        (root / name).write_text(text, encoding="utf-8")
    run("git", "init", "-q", root=root)
    dvc("init", "-q", root=root)
    dvc("repro", "-q", root=root)
    run("git", "add", "-A", root=root)
    run("git", "commit", "-qm", "project", root=root)
    return root


def test_experiments_run_at_once_and_from_the_queue_and_their_runs_say_which(project: Path) -> None:
    import mlflow

    said = dvc("exp", "run", "-n", "now", "-S", "train.lr=0.2", root=project).stdout
    assert "Stage 'draw' didn't change, skipping" in said
    run("git", "checkout", "-q", "--", ".", root=project)
    dvc("exp", "run", "--queue", "-n", "later", "-S", "train.lr=0.3", root=project)
    dvc("queue", "start", root=project)
    until = time.monotonic() + WAIT
    while "Success" not in (queue := dvc("queue", "status", root=project).stdout):
        assert time.monotonic() < until, queue
        assert "Failed" not in queue
        time.sleep(1)
    assert (project / "params.yaml").read_text() == "draw: {seed: 1}\ntrain: {lr: 0.1}\n"
    shown = dvc("exp", "show", "--only-changed", "--csv", root=project).stdout
    assert {"now", "later"} <= {cell for line in shown.splitlines() for cell in line.split(",")}
    client = mlflow.MlflowClient(tracking_uri(project))
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    parents = {each.info.run_id: each for each in runs if "parent_of" in each.data.tags}
    found = {each.data.params["lr"]: each for each in runs if each.info.run_id not in parents}
    assert {lr: each.data.tags.get("dvc.experiment") for lr, each in found.items()} == {
        "0.1": None,
        "0.2": "now",
        "0.3": "later",
    }
    for each in found.values():
        mother = parents[each.data.tags[PARENT]]
        assert mother.data.tags.get("dvc.experiment") == each.data.tags.get("dvc.experiment")
        assert [i.dataset.name for i in each.inputs.dataset_inputs] == ["data/draw.txt"]
    subprocess.run(
        [sys.executable, "-m", "dvc", "queue", "stop", "--kill"],
        cwd=project,
        env=dict(os.environ),
        capture_output=True,
        check=False,
    )
