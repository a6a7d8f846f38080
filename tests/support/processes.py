"""Commands whose Python scripts begin as forks of a process that has imported what they need: imports take seconds."""

from __future__ import annotations

import atexit
import subprocess
import sys
from functools import cache

RUN = "import sys; from caramel.runtime.fork_server import run_command; run_command(sys.argv[2:], sys.argv[1].split())"


@cache
def get_python(modules: tuple[str, ...]) -> str:
    """Return the path of a Python whose scripts are forks of a process that imports the modules; it ends with this one."""
    command = [sys.executable, "-c", RUN, " ".join(modules), "sh", "-c", "command -v python; exec cat"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)  # which closes its input, and waits
    assert server.stdout is not None
    return server.stdout.readline().strip()


def checked(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Return what has ended; where it failed, show what it said."""
    if done.returncode:
        raise AssertionError(f"{done.args} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done
