"""The environment of every process that works for caramel, here and on other nodes."""

from __future__ import annotations

import gc
import os
import sys

# Nothing phones home, and nothing waits for a network that may not be there. Who names a hub model
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
    "RAY_AUTH_MODE": "token",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "GX_ANALYTICS_ENABLED": "false",
    "TOKENIZERS_PARALLELISM": "false",
    # Threads wait for each other spinning, but briefly: for long, a machine that others use too
    # makes a training step many times slower; not at all, an idle one nearly twice as slow.
    "GOMP_SPINCOUNT": "20000",
}


# New objects after which the collector of garbage looks at them, and how many looks at new ones come before one at older ones.
# Python's own (700, 10, 10) has it look so often at what is imported that an eighth of PyTorch's and open_clip's import is that.
SELDOM = (20_000, 20, 20)


def be_quiet() -> None:
    """Set the quiet, offline environment where the user has not set it otherwise."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if not sys.stderr.isatty():  # a bar is one endless line in a log
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def collect_seldom() -> None:
    """Have the collector of garbage look at new objects less often: for a process that is ours, before it imports what is heavy."""
    gc.set_threshold(*SELDOM)


def get_forwarded_variables() -> dict[str, str]:
    """Return those of the variables that are set here, for processes on other machines."""
    return {name: os.environ[name] for name in QUIET if name in os.environ}
