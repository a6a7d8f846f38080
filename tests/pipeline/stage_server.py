"""A process that imports once what stages import, and runs each list of stages in a fork of itself.

It never runs a stage itself, so that a fork begins as a new process would: without threads, and with nothing of
another project but imported modules. A line of standard input asks for a run: JSON with the project's ``folder``, its
``environment``, the ``stages`` and a file ``log`` for what they say. A line of standard output answers with the exit
code.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from caramel.runtime.environment import be_quiet, collect_seldom

# What stages import within functions. Whatever else they import, they import in their fork.
LATE = (
    "torch",
    "open_clip",
    "diffusers.pipelines.pixart_alpha.pipeline_pixart_sigma",
    "diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion",
    "matplotlib.pyplot",
    "mlflow.store.tracking.sqlalchemy_store",
    "sklearn.linear_model",
)


def preload() -> None:
    """Import what stages import at the top of their files, and what most of them import later."""
    be_quiet()
    collect_seldom()
    for path in sorted(Path("pipelines").glob("*.py")):
        runpy.run_path(str(path), run_name="preloaded")
    for name in LATE:
        importlib.import_module(name)


def run_stages(request: dict[str, Any]) -> int:
    """Run the stages in this process, and return the exit code."""
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    try:
        for name in request["stages"]:
            runpy.run_path(f"pipelines/{name}.py", run_name="__main__")
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()  # as Python does it
        return 1
    return 0


def serve() -> None:
    """Answer requests until there are no more."""
    sys.path[0] = ""  # a project's folder, as for `python -c`
    preload()
    for line in sys.stdin:
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            continue
        code = run_stages(json.loads(line))
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # to clear away what was imported would take seconds


if __name__ == "__main__":
    serve()
