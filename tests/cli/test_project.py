"""The command line answers at once, prints no traceback on a user's mistake, and exits with its code."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import click
import pytest
from commands import CARAMEL, find_stray_stores, run_command

from caramel import cli
from caramel.blind.scorer_specs import format_scorers_help
from caramel.cli import commands
from caramel.config.schema import load_config
from caramel.errors import GateError
from caramel.models.specs import format_families_help
from caramel.release.pin import Pin

ROOT = Path(__file__).parents[2]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs a command in an empty project: exit code, stdout, stderr."""
    shutil.copytree(ROOT / "params", tmp_path / "params")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def names() -> list[str]:
    return sorted(commands.cli.commands)


@pytest.mark.parametrize("name", names())
def test_the_help_of_every_command_has_an_example(name: str, call: Call) -> None:
    code, said, _ = call(name, "--help")
    assert code == 0
    assert f"Example:\n    caramel {name}" in said


@pytest.mark.parametrize(("name", "listed"), [("eval", format_families_help), ("audit", format_scorers_help)])
def test_the_help_lists_what_can_be_named_as_it_describes_itself(
    name: str, listed: Callable[[], list[str]], call: Call
) -> None:
    _, said, _ = call(name, "--help")
    assert all(f"\n    {line.rstrip()}\n" in said for line in listed())


@pytest.mark.parametrize(
    "words",
    [
        ("table", "a", "--benchmark", b"\x80", "--out", "out.md"),
        ("release-model", "base", "--out", b"caf\xe9"),
        ("audit", b"caf\xc3\xa9/\xff.csv", "--out", "out"),
        (b"\x80",),
        ("--\x80".encode("latin-1"),),
    ],
)
def test_an_argument_that_is_no_utf_8_is_refused_before_any_command_begins(
    words: tuple[str | bytes, ...], tmp_path: Path
) -> None:
    done = run_command(tmp_path, *map(os.fsdecode, words))
    (odd,) = [os.fsdecode(word) for word in words if isinstance(word, bytes)]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: The argument {odd!r} is no UTF-8 text. Rename the file")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("forced", [{}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_a_file_whose_name_is_not_ascii_is_read_where_the_locale_is(
    forced: dict[str, str], tmp_path: Path
) -> None:
    name = "caf\xe9.csv"
    (tmp_path / name).write_text("filename,caption,negative_caption\na.png,a dog,a cat\n", encoding="utf-8")
    words = ("refine", name, "--out", "\xe9", "--folds", "2")
    done = run_command(tmp_path, *words, environment={"LC_ALL": "C", **forced})
    assert "UTF-8" not in done.stderr
    assert "1 rows" in done.stderr + done.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom caramel import cli\n"
        "try: cli.main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'pandas', 'numpy', 'torch', 'pydantic', 'ray', 'mlflow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_error_of_the_users_is_one_message_on_stderr(call: Call) -> None:
    code, out, err = call("profile", "smok")
    assert (code, out) == (1, "")
    assert err.startswith("Error: Unknown profile 'smok'. Choices: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [("profile", "default"), ("study",), ("study", "--dry-run")])
def test_outside_of_a_project_the_error_names_the_folder_and_says_what_to_do(
    arguments: tuple[str, ...], call: Call
) -> None:
    shutil.rmtree("params")
    code, out, err = call(*arguments)
    assert (code, out) == (1, "")
    assert err == (
        f"Error: {Path.cwd()} holds no profile (params/*.yaml): it is no caramel project. "
        "Run this in the project's folder, or make one: `caramel new DIR`.\n"
    )
    assert not list(Path.cwd().iterdir())


def test_an_error_of_ours_keeps_its_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(commands.cli.commands, "broken", broken)
    with pytest.raises(ZeroDivisionError):
        cli.main(["broken"])


def test_every_kind_of_caramel_error_ends_in_code_one(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def gate() -> None:
        raise GateError("five rows\n  - a")

    monkeypatch.setitem(commands.cli.commands, "gate", gate)
    assert call("gate") == (1, "", "Error: five rows\n  - a\n")


def test_profile_prints_what_changed(call: Call) -> None:
    code, out, _ = call("profile", "smoke", "--set", "scenes.train=77", "--set", "run.executor=inline")
    assert code == 0
    assert "scenes.train: None -> 77" in out, "there was no file before"
    config = load_config("params.yaml")
    assert (config.profile, config.scenes.train, config.run.executor) == ("smoke", 77, "inline")
    code, out, _ = call("profile", "smoke", "--set", "scenes.train=78", "--set", "run.executor=inline")
    assert out.splitlines() == ["scenes.train: 77 -> 78", "Wrote params.yaml. Now run `dvc repro`."]
    code, out, _ = call("profile", "smoke", "--set", "scenes.train=78", "--set", "run.executor=inline")
    assert out == "params.yaml was already so.\n"


@pytest.mark.parametrize("value", ["scenes.train", "=5", ""])
def test_a_setting_without_key_or_value_is_an_error(value: str, call: Call) -> None:
    code, _, err = call("profile", "smoke", "--set", value)
    assert code == 1
    assert "is not key=value" in err
    assert not Path("params.yaml").exists()


def test_timings_are_of_the_latest_run_of_each_stage(call: Call) -> None:
    rows = [("scenes", 5.0, 100), ("refine", 2.0, 300), ("scenes", 7.5, 200)]
    Path("work").mkdir()
    with Path("work", "timings.jsonl").open("w", encoding="utf-8") as stream:
        for stage, seconds, peak in rows:
            row = {"stage": stage, "profile": "smoke", "seconds": seconds, "peak_mb": peak}
            stream.write(json.dumps(row) + "\n")
    code, out, _ = call("timings")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[1:] == [
        ["refine", "smoke", "2.0", "s", "300", "MB"],
        ["scenes", "smoke", "7.5", "s", "200", "MB"],
        ["total", "9.5", "s", "300", "MB"],
    ]


def test_damaged_lines_of_the_timings_are_left_out_and_counted(call: Call) -> None:
    Path("work").mkdir()
    row = {"stage": "a\x1b[2K", "profile": "smoke", "seconds": 5.0, "peak_mb": 1}
    lines = [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"stage": "b"}', b"[" * 5000]
    for key, value in (
        ("stage", 1),
        ("seconds", -3.5),
        ("seconds", float("nan")),
        ("seconds", "5"),
        ("peak_mb", None),
    ):
        lines.append(json.dumps({**row, key: value}).encode())
    lines.append(json.dumps(row).encode())
    Path("work", "timings.jsonl").write_bytes(b"\n".join(lines))
    code, out, err = call("timings")
    assert code == 0
    assert out.splitlines()[1].split() == [r"a\x1b[2K", "smoke", "5.0", "s", "1", "MB"]
    assert err.startswith("Left out: 12 lines")
    Path("work", "timings.jsonl").write_bytes(b"{")
    assert "holds no run of a stage" in call("timings")[2]


@pytest.mark.parametrize("arguments", [("timings",), ("ui",), ("pin", "v1")])
def test_a_command_that_needs_results_says_to_run_dvc_repro(arguments: tuple[str, ...], call: Call) -> None:
    code, _, err = call(*arguments)
    assert code == 1
    assert "dvc repro" in err


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
    make_store = (
        "from pathlib import Path; from caramel.runtime.mlflow.store import *; "
        "client = open_client(get_store_uri(Path('mlruns'))); client.create_registered_model('tuned'); "
        "client.create_run(client.get_experiment_by_name(EXPERIMENT).experiment_id, run_name='first')"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    subprocess.run([sys.executable, "-c", make_store], cwd=tmp_path, env=environment, check=True, timeout=100)
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


def test_pin_prints_the_citation_and_verify_exits_by_what_it_finds(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Pin.model_construct(
        name="v1", created="2030-01-02", commit="c0ffee-dirty", data="ab" * 32, params={}, outs={}, tables={}
    )
    monkeypatch.setattr("caramel.release.pin.create_pin", lambda name, root: made)
    code, out, err = call("pin", "v1")
    assert code == 0
    assert "@misc{caramel-v1," in out
    assert "Warning: the sources differ" in err
    monkeypatch.setattr("caramel.release.pin.verify_pin", lambda name, root: [])
    assert call("verify", "v1") == (0, "The data set on disk is version v1.\n", "")
    monkeypatch.setattr("caramel.release.pin.verify_pin", lambda name, root: ["a: missing"])
    assert call("verify", "v1") == (1, "The data set on disk is not version v1:\n  - a: missing\n", "")


def test_doctor_exits_with_code_one_outside_a_project(call: Call) -> None:
    code, out, _ = call("doctor")
    assert code == 1
    assert "FAIL  params" in out
    assert "caramel profile default" in out


INTERRUPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from caramel.cli import main
main(["benchmarks", "sugarcrepe"])
"""


@pytest.mark.parametrize(
    "module", ["click", "caramel.cli.evaluation", "caramel.runtime.environment", "numpy", "pandas"]
)
def test_ctrl_c_ends_with_one_line_while_imports_run(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPT, module], capture_output=True, text=True)
    assert done.returncode == 130
    assert (done.stdout, done.stderr.strip()) == ("", "Interrupted. Run the same command again to go on.")


@pytest.mark.parametrize("name", ["audit", "refine", "eval", "metrics", "compare", "table"])
@pytest.mark.parametrize("seed", ["-1", str(2**32)])
def test_a_seed_that_no_generator_takes_is_refused(name: str, seed: str, call: Call) -> None:
    code, _, err = call(name, "--seed", seed)
    assert code == 2
    assert f"Invalid value for '--seed': {seed} is not in the range" in err


def test_ctrl_c_in_a_command_is_one_line_and_an_end_of_file_is_none(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(error: type[BaseException]) -> click.Command:
        @click.command()
        def command() -> None:
            raise error

        return command

    monkeypatch.setitem(commands.cli.commands, "stopped", raising(KeyboardInterrupt))
    monkeypatch.setitem(commands.cli.commands, "cut", raising(EOFError))
    code, out, err = call("stopped")
    assert (code, out, err.strip()) == (130, "", "Interrupted. Run the same command again to go on.")
    with pytest.raises(EOFError):
        cli.main(["cut"])


def test_signs_that_a_terminal_obeys_are_shown_and_not_sent(call: Call) -> None:
    code, _, err = call("profile", "a\x1b[2Kb\u202ec")
    assert code == 1
    assert "\\x1b[2K" in err
    assert not {"\x1b", "\u202e"} & set(err)
    code, _, err = call("benchmarks", "--no-such\x1b[31m")
    assert code == 2
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.ENOSPC, "Free some space"),
        (errno.EACCES, "permissions"),
        (errno.EROFS, "another place"),
        (errno.EIO, ""),
    ],
)
def test_an_error_of_the_system_names_file_and_cure(
    number: int, cure: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def command() -> None:
        raise OSError(number, os.strerror(number), "some/file")

    monkeypatch.setitem(commands.cli.commands, "broken", command)
    code, _, err = call("broken")
    assert (code, len(err.splitlines())) == (1, 1)
    assert err.startswith(f"Error: {os.strerror(number)}: 'some/file'.")
    assert cure in err
    assert cure == "Free some space" or "room" not in err


def test_doctor_mends_dvcs_files_where_it_is_asked_to(call: Call) -> None:
    Path("dvc.lock").touch()
    assert "dvc.lock is not what DVC writes: it is empty" in call("doctor")[1]
    assert Path("dvc.lock").exists()
    out = call("doctor", "--fix")[1]
    assert out.startswith("fixed dvc.lock was removed;")
    assert "missing: nothing was made yet" in out
