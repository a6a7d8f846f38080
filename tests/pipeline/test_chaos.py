"""A few faults at random moments; `make chaos` strikes all stages with all of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FAULTS = ["kill:everything", "fill:data", "cut:data"]


def test_a_struck_run_heals_or_says_what_to_do_and_its_outputs_are_those_of_an_undisturbed_one(
    smoke, tmp_path
) -> None:
    only = [word for fault in FAULTS for word in ("--only", fault)]
    script = str(Path(__file__).with_name("chaos.py"))
    command = [sys.executable, script, "--events", "3", "--seed", "5", "--stage", "refine", *only]
    places = ["--base", str(smoke.folder), "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, *places], env=smoke.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert {row["fault"] for row in rows[:-1]} <= set(FAULTS)
    assert rows[-1] == {"run": 0, "events": 3, "problems": []}
