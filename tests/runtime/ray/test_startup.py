"""A start of Ray that takes too long is tried again, a bounded number of times, each after what the last one left is gone."""

from __future__ import annotations

import colorsys
import shutil
import subprocess
import sys
import sysconfig
import venv
from contextlib import suppress
from pathlib import Path

import pytest

import caramel
from caramel.errors import ResourceError
from caramel.runtime.ray import startup
from caramel.runtime.ray.startup import WAITS, SlowStartError, is_slow_start, start_patiently


def test_a_slow_start_is_tried_again_with_a_longer_wait_after_cleaning_up(capsys) -> None:
    events: list[object] = []

    def start(seconds: int) -> str:
        events.append(seconds)
        if len(events) < 4:
            raise SlowStartError("its raylet timed out.")
        return "started"

    assert start_patiently(start, lambda: events.append("cleaned"), (3, 5, 9)) == "started"
    assert events == [3, "cleaned", 5, "cleaned", 9]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "did not start within 3 s: its raylet timed out." in lines[0]
    assert "for up to 5 s (try 2 of 3)" in lines[0]


def test_the_last_slow_start_is_an_error_with_what_to_do_and_leaves_nothing() -> None:
    events: list[object] = []

    def start(seconds: int) -> None:
        events.append(seconds)
        raise SlowStartError("its raylet timed out.")

    with pytest.raises(ResourceError, match=r"in 4 tries .* timed out.*too busy.*run the command again"):
        start_patiently(start, lambda: events.append("cleaned"))
    assert events == [event for seconds in WAITS for event in (seconds, "cleaned")]
    assert sorted(WAITS) == [*dict.fromkeys(WAITS)], "each wait is longer"


def test_another_error_is_raised_at_once() -> None:
    def start(seconds: int) -> None:
        raise ValueError(seconds)

    with pytest.raises(ValueError, match="30"):
        start_patiently(start, lambda: None)


@pytest.mark.parametrize(
    ("message", "slow"),
    [
        (
            "The current node timed out during startup. This could happen because some of the raylet failed",
            True,
        ),
        ("Timed out waiting for file /tmp/x/gcs_server_port", True),
        ("Failed to start GCS.  Last 0 lines of error files:", True),
        ("Version mismatch: The cluster was started with: Ray: 2.9", False),
        ("Invalid auth token provided", False),
    ],
)
def test_messages_of_ray_about_time_are_known(message: str, slow: bool) -> None:
    assert is_slow_start(message) is slow


PROGRAM = """
import os
import ray
from caramel.runtime.ray.startup import run_local_ray

with run_local_ray(num_cpus=1):
    worker = ray.remote(lambda: os.environ["WORD"]).options(runtime_env={"env_vars": {"WORD": "started"}})
    print(ray.get(worker.remote(), timeout=120))
"""


def test_workers_with_variables_start_where_the_path_to_python_has_spaces_and_signs(tmp_path: Path) -> None:
    environment = tmp_path / "my project é; (1) & $HOME"
    venv.create(environment, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    paths = [sysconfig.get_path("purelib"), str(Path(caramel.__file__).parents[1])]
    (site / "all.pth").write_text("".join(f"{path}\n" for path in paths))
    done = subprocess.run(
        [environment / "bin/python", "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert done.stdout == "started\n", done.stderr


IMPORTING = """
import ray
from caramel.runtime.ray.startup import run_local_ray

@ray.remote
def where():
    import colorsys
    return colorsys.__file__

with run_local_ray(num_cpus=1):
    print(ray.get(where.remote(), timeout=120))
"""


def test_a_worker_takes_no_module_of_the_working_folder_for_that_of_a_library(tmp_path: Path) -> None:
    scripts, project = tmp_path / "pipelines", tmp_path / "project"
    for folder in (scripts, project):
        folder.mkdir()
    (scripts / "stage.py").write_text(IMPORTING)
    (project / "colorsys.py").touch()
    command = [sys.executable, scripts / "stage.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, timeout=300)
    assert done.stdout == f"{colorsys.__file__}\n", done.stderr


@pytest.mark.parametrize(
    "error", [ValueError("The fallback directory file does not exist"), SlowStartError("timed out.")]
)
def test_a_folder_that_is_removed_while_ray_starts_is_named_and_nothing_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    folder, starts = tmp_path / "0", []

    def start(seconds: int, **options: object) -> None:
        starts.append(seconds)
        shutil.rmtree(folder)
        raise error

    monkeypatch.setattr(startup, "init_ray", start)
    folder.mkdir()
    with pytest.raises(ResourceError, match=f"Ray's '{folder}' on this machine was removed .*RAY_TMPDIR"):
        start_patiently(lambda seconds: startup._init_here(folder, {}, seconds), lambda: None)
    assert starts == [30]


def test_a_volume_without_room_on_which_ray_starts_is_named_and_nothing_is_tried_again(
    mount, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = mount(tmp_path / "small", 64, inodes=16)

    def fails(seconds: int, **options: object) -> None:
        for number in range(16):
            with suppress(OSError):
                (place / str(number)).touch()
        raise SlowStartError("its raylet has ended.")

    monkeypatch.setattr(startup, "init_ray", fails)
    with pytest.raises(ResourceError, match=f"Ray did not start on this machine: no space left for {place}"):
        startup._init_here(place, {}, 30)


def test_another_error_of_a_start_stays_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(seconds: int, **options: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(startup, "init_ray", fail)
    with pytest.raises(FileNotFoundError):
        startup._init_here(tmp_path, {}, 30)


RETRIED = """
import gc
import psutil
import ray
from ray._private import services
from caramel.runtime.ray.startup import run_local_ray

look, tries = services.get_node, []

def kill_first_raylet(address, node):
    tries.append(address)
    if len(set(tries)) > 1:
        return look(address, node)
    for child in psutil.Process().children():
        if child.name() == "raylet":
            child.kill()
    return look(address, "f" * 56)

services.get_node = kill_first_raylet
gc.disable()
with run_local_ray(num_cpus=1):
    heads = {one.address for one in gc.get_objects() if type(one).__name__ == "GcsClient"}
    print(heads == {ray.get_runtime_context().gcs_address}, ray.get(ray.remote(lambda: "works").remote(), timeout=120))
"""


@pytest.mark.slow
def test_where_rays_folder_cannot_be_written_at_its_end_that_is_the_only_thing_said(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import psutil\n"
        "from ray._private.node import Node\n"
        "from caramel.runtime.ray.startup import run_local_ray\n"
        "def fail(self):\n"
        "    raise OSError(30, 'Read-only file system')\n"
        "Node.destroy_external_storage = fail\n"  # which makes a folder
        "try:\n"
        "    with run_local_ray(num_cpus=1):\n"
        "        pass\n"
        "except OSError as error:\n"
        "    print(error, psutil.Process().children(recursive=True))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "[Errno 30] Read-only file system []\n"
    assert done.stderr == ""


@pytest.mark.slow
def test_no_client_of_a_failed_starts_head_is_left(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RETRIED], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert "its raylet has ended." in done.stderr
    assert done.stdout == "True works\n", done.stderr
