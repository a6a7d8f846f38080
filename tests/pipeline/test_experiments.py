"""`dvc exp run`, at once and from the queue, tells a stage the experiment's name, by which its runs are tagged, and where `mlruns/` is."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from remote_projects import run

pytestmark = pytest.mark.slow
PARAMS = "train: {lr: 0.1}\n"
GRAPH = """stages:
  train:
    cmd: '"{python}" train.py'
    params: [train.lr]
    deps: [train.py]
    outs: [data/train.txt]
"""
# What ``tracking.plan`` asks: the names that become tags, and the folder of the store.
TRAIN = """
import os
from pathlib import Path
from caramel.runtime.mlflow.store import get_store_root

names = [os.environ.get(name, "") for name in ("DVC_STAGE", "DVC_EXP_NAME")]
with (get_store_root() / "seen.txt").open("a") as stream:
    print(*names, Path("params.yaml").read_text().split()[-1], file=stream)
Path("data").mkdir(exist_ok=True)
Path("data/train.txt").write_text("trained")
"""
WAIT = 120.0  # seconds for what is queued


def dvc(*command: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run DVC as a program: its queue starts more of them."""
    return run(sys.executable, "-m", "dvc", *command, root=root)


def test_stages_of_experiments_at_once_and_of_the_queue_know_their_name_and_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DVC_ROOT", "DVC_STAGE", "DVC_EXP_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, text in {
        "dvc.yaml": GRAPH.format(python=sys.executable),
        "train.py": TRAIN,
        "params.yaml": PARAMS,
        ".gitignore": "/data/\n/seen.txt\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    run("git", "init", "-q", root=tmp_path)
    dvc("init", "-q", root=tmp_path)
    run("git", "add", "-A", root=tmp_path)
    run("git", "commit", "-qm", "project", root=tmp_path)
    dvc("exp", "run", "--queue", "-n", "later", "-S", "train.lr=0.3", root=tmp_path)
    dvc("queue", "start", root=tmp_path)
    dvc("exp", "run", "-n", "now", "-S", "train.lr=0.2", root=tmp_path)
    until, seen = time.monotonic() + WAIT, tmp_path / "seen.txt"
    while len(seen.read_text().splitlines()) < 2:
        assert time.monotonic() < until, dvc("queue", "status", root=tmp_path).stdout
        time.sleep(0.5)
    assert {*seen.read_text().splitlines()} == {"train now 0.2}", "train later 0.3}"}
