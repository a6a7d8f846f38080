"""Killed processes: what was finished is kept, and the outcome is that of an undisturbed run."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from filelock import FileLock, Timeout
from project import Project

from caramel.io.files import compute_file_hash

pytestmark = pytest.mark.slow


def start(project, stage: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["python", f"pipelines/{stage}.py"],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def wait_for(found: Callable[[], object], process: subprocess.Popen[bytes], seconds: float = 600) -> None:
    end = time.time() + seconds
    while not found():
        assert process.poll() is None, "the stage ended before it could be killed"
        assert time.time() < end, "the stage did not get so far in time"
        time.sleep(0.05)


def workers(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the Ray workers of the stage that are at work on its tasks or trials."""
    found = []
    for member in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it may end while it is looked at
            title = " ".join(member.cmdline())
            if "ShardWorker.run" in title or "ImplicitFunc.train" in title:
                found.append(member)
    return found


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the stage with all that it started, as a machine's crash would; see test_ray_cluster for a driver killed alone."""
    for member in [*psutil.Process(process.pid).children(recursive=True), process]:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    process.wait()


def shards(project) -> list[Path]:
    return list((project.folder / "work" / "synthesize").glob("*.parquet"))


def checkpoints(project) -> list[Path]:
    return list((project.folder / "work" / "finetune").glob("*/step-*.pt"))


def prepared(smoke, folder: Path, out: str):
    """Return a copy of the project without a stage's outputs, whose cluster has one core.

    A killed worker is one whose work nobody else goes on with, and the outcome is that of two.
    """
    project = smoke.clone(folder)
    shutil.rmtree(project.folder / "data" / out)
    project.environment["RAY_OVERRIDE_RESOURCES"] = '{"CPU": 1}'
    return project


def same(smoke, project, paths: list[str]) -> bool:
    return all(compute_file_hash(smoke.folder / p) == compute_file_hash(project.folder / p) for p in paths)


DRAWN = [f"data/synthesize/{name}.parquet" for name in ("candidates", "images", "images/00000")]
TUNED = [f"data/finetune/{v}-11/open_clip_model.safetensors" for v in ("infonce", "trohn_img")]
TUNED.append("data/finetune/curves.csv")


def going(project, stage: str, found: Callable[[Project], list[Path]]) -> subprocess.Popen[bytes]:
    """Start a stage and return its process when it has written a file that was not there."""
    before = {*found(project)}
    process = start(project, stage)
    wait_for(lambda: {*found(project)} - before, process)
    return process


def goes_on_without_a_worker(process: subprocess.Popen[bytes]) -> None:
    """Kill a worker of a stage that runs, and see the stage end well."""
    wait_for(lambda: workers(process), process)
    workers(process)[0].kill()
    assert process.wait(timeout=400) == 0


def test_synthesize_survives_a_crash_and_then_a_killed_worker(smoke, tmp_path) -> None:
    project = prepared(smoke, tmp_path / "p", "synthesize")
    # The grid's trials are done: it is among the shards that this one is struck.
    grid = Path("work", "synthesize")
    undone = shutil.ignore_patterns("*.parquet", "tune")
    shutil.copytree(smoke.folder / grid, project.folder / grid, ignore=undone)
    kill(going(project, "synthesize", shards))
    kept = {path.name: path.stat().st_mtime_ns for path in shards(project)}
    goes_on_without_a_worker(start(project, "synthesize"))
    assert same(smoke, project, DRAWN)
    now = {path.name: path.stat().st_mtime_ns for path in shards(project)}
    assert kept.items() <= now.items(), "a finished shard was computed again"


def test_finetune_survives_a_crash_and_then_a_killed_worker(smoke, tmp_path) -> None:
    project = prepared(smoke, tmp_path / "p", "finetune")
    kill(going(project, "finetune", checkpoints))
    goes_on_without_a_worker(start(project, "finetune"))
    assert same(smoke, project, TUNED)


def test_a_stage_that_a_killed_repro_left_behind_blocks_the_next_with_a_clear_message(
    smoke, tmp_path
) -> None:
    project = smoke.clone(tmp_path / "p")
    process = start(project, "refine")
    lock = project.folder / "work" / "locks" / "refine.lock"
    wait_for(lambda: lock.exists() and held(lock), process)
    process.send_signal(signal.SIGSTOP)  # in the middle of its work, for as long as the second one looks
    second = project.stage("refine", check=False)
    process.kill()
    process.wait()
    assert second.returncode == 1
    assert "already running" in second.stderr


def held(lock: Path) -> bool:
    """Return whether another process holds a lock."""
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True
