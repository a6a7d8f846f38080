"""`caramel doctor` in a stranger's project: it says what DVC says, runs nothing of the project and asks no server that it names."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from commands import run_command
from remote_projects import dvc

from caramel.doctor import local_status, versions
from caramel.doctor.findings import FAIL

PATIENCE = 120.0  # seconds after which something hangs


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of one stage that has run."""
    root = tmp_path_factory.mktemp("finished")
    (root / "dvc.yaml").write_text("stages:\n  copy: {cmd: cp a b, deps: [a], outs: [b]}\n", encoding="utf-8")
    (root / "a").touch()
    for command in (["init", "--no-scm", "-q"], ["repro", "-q"]):
        dvc(*command, root=root)
    return root


@pytest.fixture
def project(finished: Path, tmp_path: Path) -> Path:
    """The project at a place of its own."""
    return shutil.copytree(finished, tmp_path / "project", symlinks=True)


# No file hides another one of its group; the first that is imported is enough.
@pytest.mark.parametrize(
    "names",
    [("dvc.py", "argparse.py", "caramel/__init__.py", "sitecustomize.py"), ("dvc/__main__.py",)],
    ids=" ".join,
)
def test_no_python_file_of_a_project_runs_while_it_is_looked_at(
    names: tuple[str, ...], project: Path, tmp_path: Path
) -> None:
    for program in (project / name for name in names):
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n", encoding="utf-8")
    done = run_command(project, "doctor")
    assert "dvc.lock" in done.stdout
    assert not (tmp_path / "ran").exists()


def address_of(kind: str, port: int, project: Path) -> str:
    """Return the address of a file at a server, as a stage may name it."""
    if kind == "remote":
        with (project / ".dvc" / "config").open("a", encoding="utf-8") as stream:
            stream.write(f"['remote \"evil\"']\n    url = http://127.0.0.1:{port}/kept\n")
        return "remote://evil/x"
    if kind == "params":
        (project / "params.yaml").write_text(f"left: http\nright: 127.0.0.1:{port}/x\n", encoding="utf-8")
        return "${left}://${right}"
    return f"http://127.0.0.1:{port}/x"


@pytest.mark.parametrize("kind", ["plain", "remote", "params", "import"])
def test_no_server_that_the_graph_names_is_asked(
    kind: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "SLOW", 300.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = address_of(kind, server.getsockname()[1], project)
        graph = f"stages:\n  copy: {{cmd: cp a b, deps: [a, '{address}'], outs: [b]}}\n"
        if kind == "import":
            text = f"deps: [{{path: x, repo: {{url: '{address}'}}}}]\nouts: [{{path: c}}]\n"
            (project / "c.dvc").write_text(text, encoding="utf-8")
        else:
            (project / "dvc.yaml").write_text(graph, encoding="utf-8")
        found = versions.check_dvc_lock(project, versions.start_dvc_status(project))
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert "doctor contacts no other machine" in found.text


def test_an_answer_of_dvc_that_is_none_is_a_failure(project: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", ""], stdout=-1, stderr=-1, text=True)
    assert versions.check_dvc_lock(project, other).state == FAIL


def test_settings_that_are_a_folder_are_named_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / ".dvc" / "config").mkdir(parents=True)
    command = [sys.executable, "-P", "-m", local_status.__name__]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert ".dvc/config" in done.stderr
    assert "Traceback" not in done.stderr


# Each list holds nine of the one above: DVC looks through all 9**8 entries for the place of a key that is not allowed.
ENDLESS = "".join(
    f"{name}: &{name} [{', '.join([above] * 9)}]\n"
    for name, above in zip("abcdefghi", ("x", "*a", "*b", "*c", "*d", "*e", "*f", "*g", "*h"), strict=True)
)


@pytest.mark.parametrize("name", ["dvc.lock", "dvc.yaml"])
def test_the_doctor_ends_though_dvc_never_does_and_nothing_may_interrupt_it(name: str, project: Path) -> None:
    text = (project / name).read_text(encoding="utf-8")
    (project / name).write_text(ENDLESS + text, encoding="utf-8")
    # As a shell starts what runs in the background.
    start = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from caramel.cli import main; "
    call = f"{start}from caramel.doctor import versions; versions.SLOW = 3.0; main(['doctor'])"
    command = [sys.executable, "-c", call]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line[6:].startswith("dvc.lock")]
    assert ("unknown: DVC took over 3 s" if name == "dvc.yaml" else "is not what DVC writes") in line


def test_what_is_asked_to_end_is_killed_where_a_user_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(timeout: float) -> None:
        raise KeyboardInterrupt

    deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('at work', flush=True); time.sleep(900)"
    status = subprocess.Popen([sys.executable, "-c", deaf], stdout=-1, text=True)
    assert status.stdout is not None
    assert status.stdout.readline() == "at work\n"
    monkeypatch.setattr(status, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        versions.stop_dvc_status(status)
    assert status.wait(PATIENCE) == -signal.SIGKILL


def test_what_cannot_be_interrupted_is_killed_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(versions, "ENDING", 0.1)
    sleep = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('at work', flush=True); time.sleep(900)"
    start = f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {sleep!r}], stdout=-1)"
    deaf = f"{start}; child.stdout.readline(); {sleep}"
    status = subprocess.Popen([sys.executable, "-c", deaf], stdout=-1, stderr=-1, text=True)
    assert status.stdout is not None
    assert status.stdout.readline() == "at work\n"
    (child,) = psutil.Process(status.pid).children()
    versions.stop_dvc_status(status)
    assert status.returncode == -signal.SIGKILL
    psutil.wait_procs([child], timeout=PATIENCE)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
