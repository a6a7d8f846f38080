"""The short form of `make fuzz`: the same few hundred mutated inputs each time, in a process of its own."""

import subprocess
import sys
from pathlib import Path


def test_mutated_inputs_are_taken_whole_or_refused_with_a_message(tmp_path: Path) -> None:
    words = ["--inputs", "120", "--seed", "0", "--out", str(tmp_path / "found")]
    run = [sys.executable, str(Path(__file__).parent / "run.py"), *words]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
