"""Scripts of a command that begin as forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PRELOADED = "xml.dom.minidom"  # that nothing else here imports
SERVER = f"import sys; from caramel.runtime.fork_server import run_command; sys.exit(run_command(sys.argv[1:], ['{PRELOADED}']))"
Call = Callable[..., subprocess.CompletedProcess[str]]


def start(*command: str, **options: object) -> subprocess.Popen[str]:
    """Start a command whose scripts are forked."""
    words = [sys.executable, "-c", SERVER, *command]
    return subprocess.Popen(words, text=True, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload, no-any-return]


@pytest.fixture(scope="module")
def forking() -> Iterator[str]:
    """The Python that such a command finds; the command waits until the tests have ended."""
    server = start("sh", "-c", "command -v python; exec cat", stdin=subprocess.PIPE)
    assert server.stdout is not None
    yield server.stdout.readline().strip()
    server.communicate()
    assert server.returncode == 0


@pytest.fixture
def call(forking: str, tmp_path: Path) -> Call:
    """Call that Python in an empty folder."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [forking, *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            input="given\n",
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def write(folder: Path, code: str, name: str = "script.py") -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(code)


def test_a_script_is_a_fork_with_the_callers_arguments_folder_environment_and_files(
    call: Call, tmp_path: Path
) -> None:
    code = f"""
import os, signal, sys
print({PRELOADED!r} in sys.modules, any(name.startswith("caramel") for name in sys.modules))
print(sys.argv, os.getcwd(), os.environ["OF_CALLER"])
print(__name__, sys.path[0], input(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
print("told", file=sys.stderr)
"""
    write(tmp_path, code, "inner/script.py")
    done = call("inner/script.py", "--size 3", "a=b*", OF_CALLER="yes")
    assert done.stdout.splitlines() == [
        "True False",
        f"['inner/script.py', '--size 3', 'a=b*'] {tmp_path} yes",
        f"__main__ {tmp_path}/inner given True",
    ]
    assert (done.stderr, done.returncode) == ("told\n", 0)


@pytest.mark.parametrize(
    ("code", "ended", "said"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("raise SystemExit('no such pair')", 1, "no such pair\n"),
        ("raise SystemExit", 0, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
    ],
)
def test_a_script_ends_as_it_would_in_a_python_of_its_own(
    call: Call, tmp_path: Path, code: str, ended: int, said: str
) -> None:
    write(tmp_path, code)
    done = call("script.py")
    assert done.returncode == ended
    assert done.stderr.endswith(said)


def test_what_a_script_leaves_to_its_end_is_done_and_no_script_sees_another(
    call: Call, tmp_path: Path
) -> None:
    write(
        tmp_path,
        "import atexit, decimal; atexit.register(print, 'at the end'); decimal.left = 1; print('first')",
    )
    assert call("script.py").stdout == "first\nat the end\n"
    write(tmp_path, "import decimal; print(hasattr(decimal, 'left'))")
    assert call("script.py").stdout == "False\n"


@pytest.mark.parametrize(
    ("arguments", "forked"),
    [
        (["script.py"], True),
        (["-u", "script.py"], False),
        (["-m", "script"], False),
        (["-c", "import script"], False),
    ],
)
def test_only_scripts_are_forked(call: Call, tmp_path: Path, arguments: list[str], forked: bool) -> None:
    write(tmp_path, f"import sys; print({PRELOADED!r} in sys.modules)")
    assert call(*arguments).stdout == f"{forked}\n"


def test_a_signal_to_the_caller_reaches_its_script(forking: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print('ready', flush=True); time.sleep(60)",
    )
    process = subprocess.Popen([forking, "script.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    process.communicate()
    assert process.returncode == 7


def test_the_command_ends_as_it_does_and_nothing_is_left(tmp_path: Path) -> None:
    for code in (0, 4):
        process = start(
            "sh", "-c", f"command -v python; exit {code}", env={**os.environ, "TMPDIR": str(tmp_path)}
        )
        said, _ = process.communicate()
        assert process.returncode == code
        assert Path(said.strip()).parent.parent == tmp_path
        assert [*tmp_path.iterdir()] == []


def test_where_the_server_was_killed_a_script_runs_in_a_python_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, f"import sys; print({PRELOADED!r} in sys.modules)")
    process = start("sh", "-c", "command -v python; exec cat", stdin=subprocess.PIPE)
    assert process.stdout is not None
    python = process.stdout.readline().strip()
    process.kill()
    process.communicate()
    said = subprocess.run([python, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


def test_where_the_server_is_killed_under_a_script_its_caller_says_so(tmp_path: Path) -> None:
    write(tmp_path, "import os, signal; os.kill(os.getppid(), signal.SIGKILL)")
    process = start("sh", "-c", "python script.py 2>&1; echo $?", cwd=tmp_path)
    said, _ = process.communicate()
    assert "Error: The process that scripts are forked from was killed" in said
    assert "Traceback" not in said
    assert said.endswith("\n1\n")


def test_an_interrupt_reaches_the_script_and_the_command_decides(tmp_path: Path) -> None:
    write(tmp_path, "import time; print('ready', flush=True); time.sleep(60)")
    command = "trap '' INT; python script.py; echo $?"
    process = start("bash", "-c", command, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    began = time.monotonic()
    assert process.communicate()[0] == "130\n"
    assert time.monotonic() - began < 30


def test_stages_of_dvc_are_forks(tmp_path: Path) -> None:
    write(tmp_path, f"import sys; open('out.txt', 'w').write(str({PRELOADED!r} in sys.modules))", "stage.py")
    (tmp_path / "dvc.yaml").write_text("stages:\n  one:\n    cmd: python stage.py\n    outs: [out.txt]\n")
    dvc = str(Path(sys.executable).with_name("dvc"))
    subprocess.run([dvc, "init", "-q", "--no-scm"], cwd=tmp_path, check=True)
    process = start(dvc, "repro", "-q", cwd=tmp_path)
    process.communicate()
    assert process.returncode == 0
    assert (tmp_path / "out.txt").read_text() == "True"
