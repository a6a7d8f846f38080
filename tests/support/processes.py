"""Commands whose Python scripts begin as forks of a process that has imported what they need: imports take seconds."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from filelock import FileLock

from caramel.runtime.fork_server import PRELOADED, add_python

OF_DVC = ("dvc.cli", "dvc.repo", "dvc_data.index", "dvc_s3", "s3fs", "aiobotocore.session", "dvc_http")
OF_DVC += tuple(f"dvc.commands.{name}" for name in ("init", "remote", "repro", "data_sync", "status"))
CODE = f"import sys; from caramel.runtime.fork_server import run_and_end; run_and_end(sys.argv[1:], {(*PRELOADED, *OF_DVC)})"
ENVIRONMENT = dict(os.environ)  # before any test changes it
WAIT = 60.0  # seconds


@cache
def get_python() -> str:
    """Return the path of a Python whose scripts are forks. All processes of a run of pytest share it; it ends with them."""
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    known = Path(tempfile.gettempdir(), f"caramel-forking-{os.environ.get('PYTEST_XDIST_TESTRUNUID', owner)}")
    with FileLock(f"{known}.lock"):
        if not (known.exists() and Path(known.read_text().strip()).exists()):
            known.unlink(missing_ok=True)
            file = shlex.quote(str(known))
            script = f"command -v python > {file}; tail --pid={owner} -f /dev/null; rm {file} {file}.lock"
            command = [sys.executable, "-c", CODE, "sh", "-c", script]
            subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, start_new_session=True)
        end = time.monotonic() + WAIT
        while not (known.exists() and (path := known.read_text().strip())):
            assert time.monotonic() < end, "the process that is forked did not start"
            time.sleep(0.05)
        return path


def fork_scripts(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose ``python`` is that Python."""
    return add_python(environment, Path(get_python()))


def checked(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Return what has ended; where it failed, show what it said."""
    if done.returncode:
        raise AssertionError(f"{done.args} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done
