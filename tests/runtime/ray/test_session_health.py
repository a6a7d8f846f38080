"""A session of Ray that has broken on this machine ends the next map, and the one that runs, with what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from test_ray_cluster import at_work_on, slow_shard, slow_trial

from caramel.errors import CaramelError
from caramel.runtime.ray.cluster import share_session
from caramel.runtime.ray.session_health import find_missing
from caramel.runtime.ray.sharded_map import map_shards
from caramel.runtime.ray.temp_dirs import get_temporary_root
from caramel.runtime.ray.trials import tune_grid


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder with a short path for Ray's temporary files: its sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="t"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def private(root: Path) -> Path:
    return root / f"caramel-{os.geteuid()}"


def remove_session(folder: Path) -> None:
    """Remove the folder while processes write into it: first its name goes, at once."""
    shutil.rmtree(folder.rename(folder.with_name("removed")), ignore_errors=True)


def run_map(kind: str, folder: str) -> None:
    """Run one short shard or trial on Ray."""
    how = {"settings": {"seconds": 0.0}, "folder": folder, "executor": "ray", "title": "test"}
    if kind == "shards":
        map_shards(slow_shard, [1], **how)  # type: ignore[arg-type]
    else:
        tune_grid(slow_trial, [{"n": 1}], **how)  # type: ignore[arg-type]


def break_between(first: str, second: str, what: str, folder: str) -> None:
    """Run two maps in one session of Ray; between them its folder is removed, or one of its processes killed."""
    from caramel.runtime.environment import be_quiet

    be_quiet()
    try:
        with share_session():
            run_map(first, f"{folder}/first")
            if what == "folder":
                remove_session(private(get_temporary_root()))
            else:
                (service,) = [child for child in psutil.Process().children() if child.name() == what]
                service.kill()
                service.wait()
            run_map(second, f"{folder}/second")
    except CaramelError as error:
        sys.exit(f"Error: {error}")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("first", "second", "what"),
    [("trials", "shards", "folder"), ("shards", "trials", "folder"), ("shards", "shards", "raylet")],
)
def test_a_session_that_broke_between_two_maps_ends_the_second_with_what_to_do(
    tmp_path: Path, root: Path, first: str, second: str, what: str
) -> None:
    call = f"test_session_health.break_between({first!r}, {second!r}, {what!r}, {str(tmp_path)!r})"
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "RAY_ADDRESS": "local",
        "RAY_TMPDIR": str(root),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", f"import test_session_health; {call}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    expected = (
        f"Error: Ray's '{private(root)}/0/session_"
        if what == "folder"
        else "Error: Ray's process 'raylet' on this machine was killed"
    )
    assert expected in done.stderr
    assert "run `dvc repro` to go on" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not list(private(root).glob("[0-9]")), "the session's folder is left"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_folder_that_is_removed_while_trials_run_ends_them_and_nothing_is_left(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(root))
    with at_work_on("trials", tmp_path) as (process, family):
        remove_session(private(root))
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 1, output
        assert f"Error: Ray's '{private(root)}/0/session_" in output
        assert "set RAY_TMPDIR to a short folder" in output
        assert "Traceback" not in output
        assert not psutil.wait_procs(family, timeout=60)[1], "left running"


def test_the_first_path_that_is_missing_is_found(tmp_path: Path) -> None:
    present, absent, below = tmp_path / "socket", tmp_path / "logs", tmp_path / "socket" / "raylet"
    present.touch()
    assert find_missing([str(tmp_path), str(present)]) is None
    assert find_missing([str(present), str(absent), str(below)]) == str(absent)
    assert find_missing([str(below)]) == str(below)
