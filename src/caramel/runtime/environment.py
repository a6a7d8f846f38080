"""Set up the environment of every process that works for caramel, here and on other nodes."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
import threading
from typing import Literal, NoReturn

from caramel.errors import escape_unprintable, redact_secrets
from caramel.runtime.fork_client import FORKING

# No telemetry, and no waiting for a network that may be missing. To use a model of the hub, the user
# sets HF_HUB_OFFLINE=0.
QUIET = {
    "DVC_NO_ANALYTICS": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "DO_NOT_TRACK": "true",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    # Tune's own choice of loggers has one for TensorBoard, which imports PyTorch; ``trials`` names the others.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AUTH_MODE": "token",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "GX_ANALYTICS_ENABLED": "false",
    "TOKENIZERS_PARALLELISM": "false",
    # Threads wait for each other by spinning, but only briefly. With long spinning, a machine that others use
    # too makes a training step many times slower. Without any, a step on an idle machine is nearly twice as
    # slow.
    "GOMP_SPINCOUNT": "20000",
}


LogLevel = Literal["debug", "info", "warning", "error"]
# Variables by which libraries take the level of their messages.
LEVEL_VARIABLES = (
    "TRANSFORMERS_VERBOSITY",
    "DIFFUSERS_VERBOSITY",
    "HF_HUB_VERBOSITY",
    "MLFLOW_LOGGING_LEVEL",
)

# Number of new objects before a garbage collection, and of young collections before an older one. With
# Python's own values (700, 10, 10) the collections take an eighth of the import time of PyTorch and
# open_clip.
SELDOM = (20_000, 20, 20)


def be_quiet() -> None:
    """Set the quiet, offline environment, except for variables that the user has set."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if not sys.stderr.isatty():  # in a log a progress bar is one endless line
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def collect_seldom() -> None:
    """Make garbage collections rarer: for caramel's own processes, before heavy imports."""
    gc.set_threshold(*SELDOM)


def limit_threads() -> None:
    """Let packages use the number of threads that ``OMP_NUM_THREADS`` says, if it is set: for a worker of Ray.

    Ray sets it for each worker. In a new process, packages read it when they are loaded; in a fork, they were loaded
    before.
    """
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if FORKING in os.environ and threads.isdecimal():
        from threadpoolctl import threadpool_limits

        threadpool_limits(int(threads))
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(int(threads))  # of its own libraries too, which the other cannot see


def end_process(code: int = 0) -> NoReturn:
    """End this process with an exit code: wait for its threads and run the functions of ``atexit``, as Python does.

    Python would then free all objects one by one. That takes 1 to 2 s in a process that has imported PyTorch, and
    the operating system frees the memory anyway.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # not in the stubs
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _RedactingFormatter(logging.Formatter):
    """Hides passwords in addresses and escapes control characters, as ``cli.output.echo`` does."""

    def format(self, record: logging.LogRecord) -> str:
        return escape_unprintable(redact_secrets(super().format(record)))


def set_log_level(level: LogLevel) -> None:
    """Print the log messages of all libraries from a level up to stderr, here and in child processes.

    Some libraries take their level only from an environment variable.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_RedactingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in LEVEL_VARIABLES:
        os.environ[name] = level.upper() if name.startswith("MLFLOW") else level


def get_forwarded_variables() -> dict[str, str]:
    """Return the variables that are set here, for processes on other machines."""
    return {name: os.environ[name] for name in QUIET if name in os.environ}
