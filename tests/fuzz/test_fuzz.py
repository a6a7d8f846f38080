"""The short form of `make fuzz`: the same few hundred mutated inputs each time, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
from hostile_projects import git_settings
from remote_projects import run

RUN = [sys.executable, str(Path(__file__).parent / "run.py")]


def test_mutated_inputs_are_taken_whole_or_refused_with_a_message(tmp_path: Path) -> None:
    words = ["--inputs", "120", "--seed", "0", "--out", str(tmp_path / "found")]
    done = subprocess.run([*RUN, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.slow
def test_inputs_of_strangers_that_are_not_mutated_are_taken(tmp_path: Path) -> None:
    names = (
        "get repository",
        "pin repository",
        "verify repository",
        "runs server",
        "runs folder",
        "get folder",
    )
    only = [word for name in names for word in ("--only", name)]
    done = subprocess.run([*RUN, "--valid", *only], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


def test_planted_programs_run_where_nothing_keeps_git_from_it(tmp_path: Path) -> None:
    """Else the fuzzer, which looks for what they make, would see nothing."""
    run("git", "init", "-q", root=tmp_path)
    (tmp_path / ".git" / "config").write_bytes(git_settings(Path("$CARAMEL_FUZZ_MARKER")))
    run("git", "status", root=tmp_path, check=False, CARAMEL_FUZZ_MARKER=str(tmp_path / "ran"))
    assert (tmp_path / "ran").exists()
