import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from caramel.config.schema import Config
from caramel.errors import DataError
from caramel.io.files import remove_temporaries, write_atomically
from caramel.runtime import stage_runner
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.rejects import REJECTS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text((ROOT / "params" / "default.yaml").read_text())
    (tmp_path / "inputs/zero_shot").mkdir(parents=True)
    return tmp_path


def demo(config: Config) -> None:
    """A stage that does nothing."""


def stopped(capsys, main) -> str:
    with pytest.raises(SystemExit) as stop:
        stage_runner.run_stage(main)
    assert stop.value.code == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_a_stage_that_ends_notes_its_time_and_memory(workspace) -> None:
    stage_runner.run_stage(demo)
    row = json.loads((workspace / "work" / "timings.jsonl").read_text())
    assert row["stage"] == "demo"
    assert row["peak_mb"] > 10


def test_a_stage_removes_what_its_killed_run_left_of_a_half_written_output(workspace) -> None:
    (workspace / "dvc.yaml").write_text(
        "stages:\n  demo:\n    cmd: x\n    outs: [data/demo/a.parquet]\n    metrics: [{data/demo/b.json: {cache: false}}]\n"
    )
    folder = workspace / "data" / "demo"
    folder.mkdir(parents=True)
    left = [folder / f".{name}.{'0123456789ab'}" for name in ("a.parquet", "b.json")]
    mine = [folder / name for name in (".a.parquet", ".a.parquet.old", ".c.json.0123456789ab", "a.parquet")]
    for path in (*left, *mine):
        path.write_text("x")
    stage_runner.run_stage(demo)
    assert sorted(folder.iterdir()) == sorted(mine)


def test_what_a_writer_that_is_killed_leaves_has_a_name_that_the_stage_removes(tmp_path) -> None:
    path = tmp_path / "a.parquet"
    script = "import os, sys; from pathlib import Path; from caramel.io.files import remove_temporaries, write_atomically as w\n"
    script += "w(Path(sys.argv[1]), lambda t: (t.write_text('half'), os.kill(os.getpid(), 9)))"
    assert subprocess.run([sys.executable, "-c", script, str(path)]).returncode == -9
    assert [*tmp_path.iterdir()]
    remove_temporaries(path)
    assert not [*tmp_path.iterdir()]


def test_a_stage_first_says_where_in_the_graph_it_stands(workspace, capsys) -> None:
    (workspace / "dvc.yaml").write_text("stages:\n  demo: {}\n  last: {}\n")
    stage_runner.run_stage(demo)
    assert capsys.readouterr().out.startswith("Stage 1 of 2: demo\n")


@pytest.mark.parametrize("what", ["link", "fifo"])
def test_a_stage_notes_its_time_in_a_plain_file_alone(what, workspace, capsys) -> None:
    (workspace / "mine").write_text("mine")
    (workspace / "work").mkdir()
    place = workspace / "work" / "timings.jsonl"
    place.symlink_to(workspace / "mine") if what == "link" else os.mkfifo(place)
    assert "timings.jsonl' is " in stopped(capsys, lambda config: pytest.fail("it is said before any work"))
    assert (workspace / "mine").read_text() == "mine"


def test_a_user_error_is_one_message_without_traceback(workspace, capsys) -> None:
    def broken(config: Config) -> None:
        raise DataError("captions.csv: row 3 has no caption. Add one.")

    assert "Error: captions.csv: row 3" in stopped(capsys, broken)


def test_a_typo_in_params_names_the_nearest_key(workspace, capsys) -> None:
    text = (workspace / "params.yaml").read_text().replace("  typical_color_prob:", "  typical_colour_prob:")
    (workspace / "params.yaml").write_text(text)
    said = stopped(capsys, demo)
    assert "scenes.typical_colour_prob" in said
    assert "did you mean 'typical_color_prob'" in said


def test_a_full_disk_is_a_clear_message(workspace, capsys) -> None:
    def full(config: Config) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "data/x.parquet")

    said = stopped(capsys, full)
    assert "no space left" in said
    assert "dvc repro" in said


@pytest.mark.parametrize("name", ["data", "work", "mlruns"])
@pytest.mark.parametrize("state", ["full", "read-only"])
def test_a_volume_that_cannot_take_the_results_is_named_before_the_stage_runs(
    name, state, workspace, capfd, mount, monkeypatch
) -> None:
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    monkeypatch.setenv("DVC_ROOT", str(workspace))

    def late(config: Config) -> None:
        raise AssertionError("must not run")

    place = mount(workspace / name, 1 if state == "full" else 64)
    if state == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    said = stopped(capfd, late)
    assert f"its volume {place} {'has' if state == 'full' else 'is read-only'}" in said
    assert len(said.strip().splitlines()) == 1


def test_rays_folder_for_temporary_files_is_looked_at_where_ray_is_used(
    workspace, capsys, mount, monkeypatch
) -> None:
    place = mount(workspace / "temporary", 1)
    monkeypatch.setenv("RAY_TMPDIR", str(place))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert f"no space left for {place}" in stopped(capsys, demo).lower()
    for here in ("", "local"):
        monkeypatch.setenv("RAY_ADDRESS", here)
        assert f"no space left for {place}" in stopped(capsys, demo).lower()
    params = workspace / "params.yaml"
    params.write_text(params.read_text().replace("executor: ray", "executor: inline"))
    stage_runner.run_stage(demo)


def test_a_cluster_that_does_not_answer_is_named_before_a_stage_begins(
    workspace, capsys, monkeypatch
) -> None:
    begun: list[str] = []

    def begins(config: Config) -> None:
        begun.append("work")

    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    said = stopped(capsys, begins)
    assert "RAY_ADDRESS='127.0.0.1:1' cannot be joined" in said
    assert "`unset RAY_ADDRESS`" in said
    assert begun == []
    params = workspace / "params.yaml"
    params.write_text(params.read_text().replace("executor: ray", "executor: inline"))
    stage_runner.run_stage(begins)
    assert begun == ["work"]


def test_a_volume_that_fills_while_a_stage_runs_is_named_with_the_file(workspace, capsys, mount) -> None:
    place = mount(workspace / "work", 20)

    def filling(config: Config) -> None:
        write_atomically(place / "shard", lambda path: path.write_bytes(bytes(30 * 2**20)))

    said = stopped(capsys, filling)
    assert f"Stage 'filling': '{place}/shard' was not written: no space left for {place}/shard" in said
    assert f"its volume {place} has 0 MiB free" in said

    def in_a_librarys_words(config: Config) -> None:
        (place / "a").write_bytes(bytes(18 * 2**20))
        raise RuntimeError("PytorchStreamWriter failed writing file")

    said = stopped(capsys, in_a_librarys_words)
    assert f"its volume {place} has" in said
    assert "PytorchStreamWriter" in said


def test_signs_that_steer_a_terminal_are_printed_as_escapes(workspace, capsys) -> None:
    def broken(config: Config) -> None:
        raise DataError("caption '\x1b[2K' is empty")

    assert r"'\x1b[2K'" in stopped(capsys, broken)


def test_a_clock_that_was_set_back_gives_no_negative_time(workspace, monkeypatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    stage_runner.run_stage(demo)
    assert json.loads((workspace / "work" / "timings.jsonl").read_text())["seconds"] >= 0


def test_another_error_of_the_system_is_not_hidden(workspace) -> None:
    def broken(config: Config) -> None:
        raise PermissionError("not yours")

    with pytest.raises(PermissionError):
        stage_runner.run_stage(broken)


def test_a_stage_does_not_run_twice_at_once(workspace, capsys, monkeypatch) -> None:
    monkeypatch.setattr(stage_runner, "LOCK_WAIT", 0.1)
    lock = workspace / "work" / "locks" / "demo.lock"
    lock.parent.mkdir(parents=True)
    with FileLock(lock):
        assert "already running" in stopped(capsys, demo)


def test_a_stage_that_needs_images_says_why_it_is_skipped(workspace, capsys) -> None:
    write_table(IMAGES, build_frame(IMAGES, []), stage_runner.SCENE_IMAGES)

    def drawn(config: Config) -> None:
        raise AssertionError("must not run")

    stage_runner.run_stage(
        drawn, images_needed={"out/t.parquet": REJECTS, "out/m.json": None, "out/folder": None}
    )
    assert "has no images" in capsys.readouterr().out
    assert len(read_table(REJECTS, "out/t.parquet")) == 0
    assert "has no images" in json.loads(Path("out/m.json").read_text())["skipped"]
    assert "has no images" in Path("out/folder/SKIPPED.txt").read_text()


def test_a_stages_process_ends_after_its_threads_and_exit_functions_and_frees_nothing(workspace) -> None:
    (workspace / "stage.py").write_text(
        "import atexit, threading, time\n"
        "from caramel.runtime.stage_runner import run_stage\n"
        "class Held:\n"
        "    def __del__(self): print('freed')\n"
        "held = Held()\n"
        "def late(): time.sleep(0.5); print('thread')\n"
        "def demo(config):\n"
        "    atexit.register(print, 'exit')\n"
        "    threading.Thread(target=late).start()\n"
        "    print('stage')\n"
        "run_stage(demo)\n"
        "print('not reached')\n"
    )
    done = subprocess.run([sys.executable, "stage.py"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["stage", "thread", "exit"]
    assert (workspace / "work" / "timings.jsonl").exists()
    several = "import runpy; [runpy.run_path('stage.py', run_name='__main__') for _ in range(2)]"
    done = subprocess.run([sys.executable, "-c", several], capture_output=True, text=True, check=True)
    assert done.stdout.split().count("stage") == 2, (
        "a process that was started for more than the stage goes on"
    )
