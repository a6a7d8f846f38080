"""Scripts of a command that begin as forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

PRELOADED = "xml.dom.minidom"  # that nothing else here imports
SERVER = f"import sys; from caramel.runtime.fork_server import run_command; sys.exit(run_command(sys.argv[1:], ['{PRELOADED}']))"
Call = Callable[..., subprocess.CompletedProcess[str]]


def start(*command: str, **options: object) -> subprocess.Popen[str]:
    """Start a command whose scripts are forked."""
    words = [sys.executable, "-c", SERVER, *command]
    return subprocess.Popen(words, text=True, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload, no-any-return]


@pytest.fixture(scope="module", autouse=True)
def _interrupts() -> Iterator[None]:
    """Let interrupts reach what the tests start, also where a shell runs pytest in the background, which ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
print(sys.orig_argv[1:] == sys.argv)
def annotated(x: int): ...
print(annotated.__annotations__["x"] is int, file=sys.stderr)
"""
    write(tmp_path, code, "inner/script.py")
    done = call("inner/script.py", "--size 3", "a=b*", OF_CALLER="yes")
    assert done.stdout.splitlines() == [
        "True False",
        f"['inner/script.py', '--size 3', 'a=b*'] {tmp_path} yes",
        f"__main__ {tmp_path}/inner given True",
        "True",
    ]
    assert (done.stderr, done.returncode) == ("True\n", 0)


def test_a_garbage_collection_of_a_fork_leaves_out_what_the_server_imported(
    call: Call, tmp_path: Path
) -> None:
    write(tmp_path, "import gc; print(len(gc.get_objects()) < gc.get_freeze_count())")
    assert call("script.py").stdout == "True\n"


@pytest.mark.parametrize(
    ("code", "ended", "said"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("raise SystemExit('no such pair')", 1, "no such pair\n"),
        ("raise SystemExit", 0, ""),
        ("raise SystemExit(2.5)", 1, "2.5\n"),
        ("raise SystemExit(2**40 + 5)", 5, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
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


def test_a_script_that_does_not_exist_is_said_as_python_says_it(call: Call) -> None:
    done = call("no_such_file.py")
    assert done.returncode == 2
    assert "can't open file" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_script_has_the_exit_code_that_a_shell_gives_it(call: Call, tmp_path: Path) -> None:
    write(tmp_path, "raise KeyboardInterrupt")
    done = call("script.py")
    assert done.returncode == 130
    assert done.stderr.endswith("KeyboardInterrupt\n")


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


def test_what_the_caller_ignores_or_blocks_its_script_does_too(forking: str, tmp_path: Path) -> None:
    code = """
import signal
print([signal.getsignal(n) is signal.SIG_IGN for n in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)])
print(signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""
    write(tmp_path, code)

    def prepare() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])

    done = subprocess.run(
        [forking, "script.py"], cwd=tmp_path, preexec_fn=prepare, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[False, True, False]\nTrue\n"


def test_the_callers_python_path_holds(call: Call, tmp_path: Path) -> None:
    write(tmp_path, "value = 5", "further/particular.py")
    write(tmp_path, "import particular; print(particular.value)")
    assert call("script.py", PYTHONPATH=str(tmp_path / "further")).stdout == "5\n"
    assert call("script.py").returncode == 1


def test_forks_draw_different_numbers(call: Call, tmp_path: Path) -> None:
    write(tmp_path, "import random, tempfile; print(random.random(), tempfile.mktemp())")
    first, second = (call("script.py").stdout.split() for _ in range(2))
    assert not {*first} & {*second}


def test_a_script_ends_with_its_caller(forking: str, tmp_path: Path) -> None:
    write(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    caller = subprocess.Popen([forking, "script.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    script = psutil.Process(int(caller.stdout.readline()))
    caller.kill()
    caller.wait()
    _, alive = psutil.wait_procs([script], timeout=30)
    assert not alive


def test_a_script_that_the_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    write(tmp_path, "import time; open('ready', 'w'); time.sleep(60)")
    began = time.monotonic()
    process = start("sh", "-c", "python script.py & until [ -e ready ]; do sleep 0.1; done", cwd=tmp_path)
    process.communicate()
    assert time.monotonic() - began < 50


def test_a_script_that_fails_in_any_way_leaves_the_server_as_it_was(call: Call, tmp_path: Path) -> None:
    write(tmp_path, "import os, sys; os.close(1); os.close(2)", "closing.py")
    write(tmp_path, "import atexit; atexit.register(lambda: 1 / 0)", "failing.py")
    for name in ("closing.py", "failing.py", "no_such_file.py"):
        call(name)
    write(tmp_path, f"import sys; print({PRELOADED!r} in sys.modules)")
    assert call("script.py").stdout == "True\n"


def test_a_folder_that_takes_no_program_or_socket_is_said_and_nothing_is_forked(tmp_path: Path) -> None:
    write(tmp_path, f"import sys; print({PRELOADED!r} in sys.modules)")
    (long := tmp_path / ("a" * 100)).mkdir()
    environment = {**os.environ, "TMPDIR": str(long)}
    process = start("python", "script.py", cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    said, warned = process.communicate()
    assert said == "False\n"
    assert "Scripts are not forked" in warned
    assert process.returncode == 0
    assert [*long.iterdir()] == []


def test_a_signal_to_the_server_is_one_to_its_command(tmp_path: Path) -> None:
    write(tmp_path, "print('ready', flush=True)")
    command = "trap 'echo told; exit 3' TERM; python script.py; while :; do sleep 0.1; done"
    process = start("sh", "-c", command, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.communicate()[0] == "told\n"
    assert process.returncode == 3


@pytest.mark.parametrize(
    ("command", "said"), [([], "Say which command"), (["no-such-program"], "no program 'no-such-program'")]
)
def test_a_command_that_cannot_be_run_is_said(command: list[str], said: str) -> None:
    words = [sys.executable, "-m", "caramel.runtime.fork_server", *command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_ends_as_it_does_and_nothing_is_left(tmp_path: Path) -> None:
    for code in (0, 4):
        process = start(
            "sh", "-c", f"command -v python; exit {code}", env={**os.environ, "TMPDIR": str(tmp_path)}
        )
        said, _ = process.communicate()
        assert process.returncode == code
        assert Path(said.strip()).parent.parent == tmp_path
        assert [*tmp_path.iterdir()] == []


def test_imported_modules_have_no_last_words_behind_the_commands(tmp_path: Path) -> None:
    code = """
        from pathlib import Path

        class Leak:
            def __del__(self, print=print):
                print("leaked")

        leak = Leak()
        Path("imported").touch()
    """
    write(tmp_path, textwrap.dedent(code), "pandas.py")  # the first of the modules
    command = ["sh", "-c", "until [ -e imported ]; do sleep 0.05; done; echo done; exit 3"]
    done = subprocess.run(
        [sys.executable, "-m", "caramel.runtime.fork_server", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "done\n", "")


def test_where_the_server_was_killed_a_script_runs_in_a_python_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, f"import sys; print({PRELOADED!r} in sys.modules)")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = start("sh", "-c", "command -v python; exec cat", stdin=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    python = process.stdout.readline().strip()
    process.kill()
    process.communicate()
    said = subprocess.run([python, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


def test_where_the_server_is_killed_under_a_script_its_caller_says_so_although_others_go_on(
    tmp_path: Path,
) -> None:
    code = """
import os, pathlib, signal, time
pathlib.Path("first").touch()
while not pathlib.Path("second").exists():
    time.sleep(0.1)
os.kill(os.getppid(), signal.SIGKILL)
"""
    write(tmp_path, code)
    write(
        tmp_path,
        "import os, time; print(os.getpid(), file=open('second', 'w'), flush=True); time.sleep(60)",
        "other.py",
    )
    both = """
python script.py > said 2>&1 & first=$!
until [ -e first ]; do sleep 0.1; done
python other.py > /dev/null 2>&1 &
wait $first; echo $?
python -c 'print("own")' && python second.py
"""
    write(tmp_path, "print('second')", "second.py")
    began = time.monotonic()
    process = start("sh", "-c", both, cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert process.communicate()[0] == "1\nown\nsecond\n"
    assert time.monotonic() - began < 45, "it did not wait for the other one"
    os.kill(int((tmp_path / "second").read_text()), signal.SIGKILL)
    text = (tmp_path / "said").read_text()
    assert "Error: The process that scripts are forked from was killed" in text
    assert "Traceback" not in text


def test_an_interrupt_reaches_the_script_and_the_command_decides(tmp_path: Path) -> None:
    write(tmp_path, "import time; print('ready', flush=True); time.sleep(60)")
    command = "trap : INT; python script.py; echo $?"
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
