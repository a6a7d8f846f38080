"""Run a command whose Python scripts begin as forks of a process that has imported large packages once.

    python -m caramel.runtime.fork_server dvc repro

Each stage of the pipeline is a script, and imports PyTorch, open_clip or Great Expectations for seconds. This
process imports them beside the command's first stages, and never uses them. So a fork of it begins as a new Python
would: without threads, and with nothing but imported modules. Modules of caramel are not among them; a script
reads those from their files.

The command runs as usual, with one change: the first ``python`` on its PATH hands a call ``python FILE ARGUMENTS``
to this process, with its environment, folder and open files (``fork_client.py``). For all other calls, and if this
process has ended, it is this process's Python.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from caramel.runtime import fork_client
from caramel.runtime.environment import be_quiet, collect_seldom, end_process
from caramel.runtime.fork_client import FORKING

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
    "matplotlib.pyplot",
)
POLL = 0.05  # seconds until the end of the command is noticed


def run_command(command: Sequence[str], modules: Iterable[str] = PRELOADED) -> int:
    """Run a command until it ends, and return its exit code; -N if signal N ended it.

    Args:
        command: program and arguments.
        modules: names of modules that its scripts may import; missing ones are left out.
    """
    # A TemporaryDirectory would be removed when the first fork ends.
    folder = Path(tempfile.mkdtemp(prefix="caramel-"))
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            address = str(folder / "socket")
            listener.bind(address)
            listener.listen()
            _write_python(folder / "python", address)
            path = os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])
            environment = {**os.environ, "PATH": path, FORKING: str(folder / "python")}
            process = subprocess.Popen(command, env=environment)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command decides what an interrupt means
            _serve(listener, modules, process)
            return process.returncode
    finally:
        shutil.rmtree(folder)


def _write_python(path: Path, address: str) -> None:
    """Write the program that scripts are called with."""
    words = [sys.executable, "-IS", str(Path(fork_client.__file__).resolve()), address, sys.executable]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o700)


def _serve(listener: socket.socket, modules: Iterable[str], process: subprocess.Popen[bytes]) -> None:
    """Import the modules one by one, and in between fork for whoever connects, until the process has ended."""
    # Without it, packages that ask at import whether there is a GPU would start CUDA, which then fails in a fork.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    be_quiet()
    collect_seldom()
    remaining, callers = iter(modules), dict[int, socket.socket]()
    while process.poll() is None:
        module = next(remaining, None)
        if module is not None:
            with suppress(ImportError):
                importlib.import_module(module)
        ready, _, _ = select.select([listener], [], [], POLL if module is None else 0)
        if ready:
            caller, _ = listener.accept()
            script = os.fork()
            if not script:
                listener.close()
                end_process(_run_script(caller))
            callers[script] = caller
            _reply(caller, script)
        for script in [*callers]:
            ended, status = os.waitpid(script, os.WNOHANG)
            if ended:
                with callers.pop(script) as caller:
                    _reply(caller, os.waitstatus_to_exitcode(status))


def _reply(caller: socket.socket, number: int) -> None:
    """Send a process id or an exit code."""
    with suppress(BrokenPipeError):  # who asked has ended
        caller.sendall(f"{number}\n".encode())


def _run_script(caller: socket.socket) -> int:
    """Become the process of the caller's script, as ``python FILE ARGUMENTS`` would; return its exit code."""
    _, descriptors, _, _ = socket.recv_fds(caller, 1, 3)
    with caller, caller.makefile() as stream:
        request = json.loads(stream.readline())
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for name in [name for name in sys.modules if name.partition(".")[0] == "caramel"]:
        del sys.modules[name]  # the script may belong to another version of caramel
    script = Path(request["arguments"][0]).resolve()
    sys.argv, sys.path[0] = request["arguments"], str(script.parent)
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = str(script)
    try:
        exec(compile(script.read_bytes(), script, "exec"), vars(main))
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        traceback.print_exc()
        return 128 + signal.SIGINT
    except BaseException:  # noqa: BLE001
        traceback.print_exc()  # as Python does
        return 1
    return 0


if __name__ == "__main__":
    done = run_command(sys.argv[1:])
    sys.exit(done if done >= 0 else 128 - done)
