"""Run a command whose Python scripts begin as forks of a process that has imported large packages once.

    python -m caramel.runtime.fork_server dvc repro

Each stage of the pipeline is a script, and imports PyTorch, open_clip or Great Expectations for seconds. This
process imports them beside the command's first stages, and never uses them. So a fork of it begins almost as a new
Python would: with one thread, and with nothing but imported modules. Modules of caramel are not among them; a script
reads those from their files.

The command runs as usual, with one change: the first ``python`` on its PATH hands a call ``python FILE ARGUMENTS``
to this process, with its environment, folder and standard files (``fork_client.py``). For all other calls, and if
this process has ended, it is this process's Python. A fork has the caller's entries of ``PYTHONPATH`` first. All else
that Python or a package reads when it starts or is imported is that of this process: ``PYTHONHASHSEED``, the
locale, ``HF_HOME``, ``OMP_NUM_THREADS``. So are its process group and the limits of its resources.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from caramel.runtime import fork_client
from caramel.runtime.environment import be_quiet, collect_seldom, end_process
from caramel.runtime.fork_client import FORKING, FORWARDED, SIGNALLED

# What stages import, in the order in which the graph needs it. Ray is not among them: it reads, when it is imported,
# what caramel sets before, such as that it listens on the loopback interface alone.
PRELOADED = (
    "pandas",
    "pyarrow.parquet",
    "sklearn.linear_model",
    "mlflow.store.tracking.sqlalchemy_store",
    "great_expectations",
    "torch",
    "diffusers.pipelines.pixart_alpha.pipeline_pixart_sigma",
    "open_clip",
)
POLL = 0.05  # seconds until the end of a script, or of the command, is noticed
LONGEST = 100  # bytes in the path of a socket


def run_command(command: Sequence[str], modules: Iterable[str] = PRELOADED) -> int:
    """Run a command until it ends, and return its exit code; -N if signal N ended it.

    Args:
        command: program and arguments.
        modules: names of modules that its scripts may import; those that cannot be imported are left out.
    """
    # A TemporaryDirectory would be removed when the first fork ends.
    folder = Path(tempfile.mkdtemp(prefix="caramel-"))
    try:
        address = str(folder / "socket")
        _write_python(folder / "python", address)
        if len(os.fsencode(address)) > LONGEST or not os.access(folder / "python", os.X_OK):
            where = tempfile.gettempdir()
            print(
                f"Scripts are not forked: no program or socket can be in {where!r} (TMPDIR).", file=sys.stderr
            )
            shutil.rmtree(folder)
            os.execvp(command[0], [*command])
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen()
            process = subprocess.Popen(command, env=add_python(os.environ, folder / "python"))
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command decides what an interrupt means
            for number in FORWARDED:
                signal.signal(number, lambda number, _: process.send_signal(number))
            try:
                _serve_scripts(listener, modules, process)
            finally:
                process.wait()  # without a server, its scripts run in Pythons of their own
            return process.returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_and_end(command: Sequence[str], modules: Iterable[str] = PRELOADED) -> NoReturn:
    """Be the process of ``run_command``: end with the command's exit code, as a shell would give it.

    Python's own end would free what was imported, and some of those modules would then print what they leaked.
    """
    exit_code = run_command(command, modules)
    end_process(exit_code if exit_code >= 0 else SIGNALLED - exit_code)


def add_python(environment: Mapping[str, str], python: Path) -> dict[str, str]:
    """Return an environment in which ``python`` is a program, and Ray's workers and second processes are its forks."""
    path = os.pathsep.join([str(python.parent), environment.get("PATH", os.defpath)])
    return {**environment, "PATH": path, FORKING: str(python)}


def _write_python(path: Path, address: str) -> None:
    """Write the program that scripts are called with."""
    words = [sys.executable, "-IS", str(Path(fork_client.__file__).resolve()), address, sys.executable]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o700)


def _serve_scripts(listener: socket.socket, modules: Iterable[str], process: subprocess.Popen[bytes]) -> None:
    """Import the modules one by one, and in between fork for whoever connects, until the process has ended.

    Scripts that it leaves behind are ended.
    """
    # Without it, packages that ask at import whether there is a GPU would start CUDA, which then fails in a fork.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    be_quiet()
    collect_seldom()
    remaining, scripts, callers = iter(modules), set[int](), dict[int, socket.socket]()
    stopped = False
    while process.poll() is None or scripts:
        if process.poll() is not None and not stopped:  # it was killed, or has left scripts behind
            stopped = True
            for script in scripts:
                os.kill(script, signal.SIGTERM)
        module = next(remaining, None)
        if module is not None:
            with suppress(Exception):  # a script that imports it says what is wrong
                importlib.import_module(module)
        ready, _, _ = select.select([listener, *callers.values()], [], [], POLL if module is None else 0)
        if listener in ready:
            caller, _ = listener.accept()
            if script := _start_script(caller, [listener, *callers.values()]):
                scripts.add(script)
                callers[script] = caller
        for script, caller in [*callers.items()]:
            if caller in ready:  # it has ended, and nobody waits for the script
                callers.pop(script).close()
                os.kill(script, signal.SIGTERM)
        for script in [*scripts]:
            ended, status = os.waitpid(script, os.WNOHANG)
            if ended:
                scripts.remove(script)
                if script in callers:
                    _send_number(callers.pop(script), os.waitstatus_to_exitcode(status), last=True)


def _start_script(caller: socket.socket, others: Iterable[socket.socket]) -> int:
    """Start the caller's script in a fork, which does not return; return its process id, or 0 if none was started."""
    descriptors: list[int] = []
    held = signal.pthread_sigmask(
        signal.SIG_BLOCK, (signal.SIGINT, *FORWARDED)
    )  # until the script's own handlers
    try:
        _, descriptors, _, _ = socket.recv_fds(caller, 1, 3)
        with caller.makefile() as stream:
            request = json.loads(stream.readline())
        gc.freeze()  # or each garbage collection of the fork would look at a million imported objects, for half a second
        script = os.fork()
        if not script:
            for other in (caller, *others):
                other.close()
            _run_to_end(request, descriptors)
        _send_number(caller, script)
        return script
    except (OSError, ValueError):  # the caller ended before it had asked, or the machine has no room
        _send_number(caller, 0, last=True)
        return 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        for descriptor in descriptors:
            os.close(descriptor)


def _send_number(caller: socket.socket, number: int, last: bool = False) -> None:
    """Send a process id, or an exit code as the last word."""
    with suppress(OSError):  # the caller has ended
        caller.sendall(f"{number}\n".encode())
    if last:
        caller.close()


def _run_to_end(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Be the process of a script, as ``python FILE ARGUMENTS`` would, to its end."""
    code = 1
    try:
        _take_over(request, descriptors)
        code = _run_script(request["arguments"])
        end_process(code)
    finally:
        os._exit(code & 0xFF)  # whatever happens, this is not the server


def _take_over(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Take the caller's standard files, signals, folder and environment."""
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
        os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())  # type: ignore[union-attr]
    for number in (signal.SIGINT, *FORWARDED):
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in request["ignored"] else default)
    signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
    with suppress(OSError):  # only root may lower it
        Path(fork_client.OOM).write_text(request["oom"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])


def _run_script(arguments: list[str]) -> int:
    """Run a script as the main module; return the exit code."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "caramel"]:
        del sys.modules[name]  # the project's own may have changed since
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    script = Path(arguments[0]).resolve()
    sys.argv, sys.orig_argv, sys.path[0] = arguments, [sys.executable, *arguments], str(script.parent)
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[1:] = [*given, *(path for path in sys.path[1:] if path not in given)]
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = str(script)
    try:
        exec(compile(script.read_bytes(), script, "exec", dont_inherit=True), vars(main))
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF  # as the system would
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException as error:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
        return SIGNALLED + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit("Say which command is to run: python -m caramel.runtime.fork_server dvc repro")
    if not shutil.which(sys.argv[1]):
        sys.exit(f"Error: there is no program {sys.argv[1]!r}. Is the environment active?")
    run_and_end(sys.argv[1:])
