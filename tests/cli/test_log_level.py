"""`caramel --log-level` decides which log messages appear on stderr, and hides secrets in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands import CARAMEL

from caramel.runtime.environment import LEVEL_VARIABLES


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CARAMEL, *words], cwd=folder, capture_output=True, text=True, check=False)


def test_debug_adds_the_traceback_of_an_error_and_changes_neither_message_nor_code(tmp_path: Path) -> None:
    plain, debug = (run(tmp_path, *words, "benchmarks", "no") for words in ((), ("--log-level", "debug")))
    assert plain.returncode == debug.returncode == 1
    assert "Traceback" not in plain.stderr
    assert debug.stderr.endswith(plain.stderr)
    assert "DEBUG caramel: Where the error occurred:\nTraceback" in debug.stderr
    assert run(tmp_path, "--log-level", "info", "benchmarks", "no").stderr == plain.stderr


def test_an_unknown_level_lists_the_levels(tmp_path: Path) -> None:
    done = run(tmp_path, "--log-level", "loud", "benchmarks")
    assert done.returncode == 2
    assert "'debug', 'info', 'warning', 'error'" in done.stderr


def test_a_message_appears_from_its_level_up_without_the_secrets_of_an_address() -> None:
    code = (
        "import logging, os; from caramel.runtime.environment import LEVEL_VARIABLES, set_log_level;"
        "set_log_level('info'); logging.getLogger('a').info('GET http://me:PLANTED@host/x?key=PLANTED');"
        "logging.getLogger('a').debug('too low'); print(*(os.environ[name] for name in LEVEL_VARIABLES))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.rstrip().endswith("INFO a: GET http://host/x?key=…")
    assert done.stdout.split() == ["info", "info", "info", "INFO"]


@pytest.mark.parametrize("name", LEVEL_VARIABLES)
def test_the_libraries_know_the_variables(name: str) -> None:
    from importlib.util import find_spec

    package, file = {
        "TRANSFORMERS_VERBOSITY": ("transformers", "utils/logging.py"),
        "DIFFUSERS_VERBOSITY": ("diffusers", "utils/logging.py"),
        "HF_HUB_VERBOSITY": ("huggingface_hub", "utils/logging.py"),
        "MLFLOW_LOGGING_LEVEL": ("mlflow", "environment_variables.py"),
    }[name]
    (folder,) = find_spec(package).submodule_search_locations
    assert name in Path(folder, file).read_text(encoding="utf-8")
