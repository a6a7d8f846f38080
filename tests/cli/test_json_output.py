"""With `--json`, stdout is one JSON object that holds what the command prints; messages and exit codes stay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pandas as pd
import pytest
from explored import write_release, write_results

from caramel.cli.commands import cli as group
from caramel.cli.output import add_json_option, print_json

Call = Callable[..., tuple[int, str, str]]
CAPTIONS = {"replace_att": [(f"A red cup {n}.", f"A blue cup {n}.") for n in range(40)]}
COMMANDS = ("eval", "compare", "table", "audit", "verify", "diff", "doctor")
CARAMEL = Path(sys.executable).with_name("caramel")


@pytest.fixture
def results(call: Call) -> Path:
    """Return the folder of the results of one model, in an empty project beside its release."""
    write_release(Path("sugarcrepe"), CAPTIONS)
    write_results(Path("a"), Path("sugarcrepe"), {"a": [1.0, -1.0] * 20})
    write_results(Path("b"), Path("sugarcrepe"), {"b": [1.0] * 39 + [0.0]})
    return Path("a")


def read_object(call: Call, *arguments: str, code: int = 0) -> tuple[dict[str, Any], str]:
    """Return the object on stdout and the text on stderr."""
    ended, out, err = call(*arguments, "--json")
    assert ended == code, err
    value = json.loads(out, parse_constant=pytest.fail)
    assert value["command"] == arguments[0]
    return value, err


@pytest.mark.parametrize("name", COMMANDS)
def test_the_option_is_in_the_help(name: str) -> None:
    assert "--json" in click.Context(group.commands[name], info_name=name).get_help()


def test_eval_prints_its_metrics(call: Call, results: Path) -> None:
    value, err = read_object(
        call, "eval", "--model", "blind:length", "--benchmark", "sugarcrepe", "--data", ".", "--out", "out", "--limit", "8"
    )  # fmt: skip
    written = pd.read_csv("out/metrics.csv")
    assert [row["value"] for row in value["metrics"]] == written["value"].tolist()
    assert (value["out"], value["limit"]) == ("out", 8)
    assert "Written to out." in err


def test_a_dry_run_says_what_is_missing(call: Call, results: Path) -> None:
    arguments = ("eval", "--model", "blind:nothing", "--benchmark", "sugarcrepe", "--data", ".", "--out", "out", "--dry-run")  # fmt: skip
    value, _ = read_object(call, *arguments, code=1)
    assert value["passed"] is False
    assert any("nothing" in line for line in value["missing"])


def test_compare_prints_its_rows_with_null_for_nan(call: Call, results: Path) -> None:
    value, err = read_object(call, "compare", "a", "b", "--n-bootstrap", "100")
    row = value["comparisons"][0]
    assert (row["subset"], row["metric"], row["n"]) == ("all", "accuracy", 40)
    assert row["difference"] == pytest.approx(0.5 - 39 / 40)
    assert "Holm" in err, "the text is on stderr"


def test_table_prints_columns_rows_and_notes(call: Call, results: Path) -> None:
    value, _ = read_object(
        call, "table", "a", "b", "--benchmark", "sugarcrepe", "--subset", "all", "--no-published"
    )
    assert value["columns"] == [["all", "accuracy"]]
    names = {line["name"]: line["cells"][0]["text"] for part in value["parts"] for line in part}
    assert (names["a"], names["b"]) == ("50.0", "97.5")


def test_audit_prints_the_audit_and_broken_thresholds(call: Call, results: Path) -> None:
    arguments = ("audit", "sugarcrepe", "--out", "audit", "--scorer", "length", "--max-accuracy", "0.5")
    value, err = read_object(call, *arguments, code=1)
    assert value["passed"] is False
    assert len(value["broken_thresholds"]) == err.count("Threshold broken")
    assert value["audit"] == json.loads(Path("audit/audit.json").read_text())


def test_doctor_prints_its_findings(call: Call) -> None:
    code, out, _ = call("doctor", "--json")
    value = json.loads(out)
    assert value["passed"] is (code == 0)
    assert {"state", "name", "text", "cure"} == set(value["findings"][0])


def test_an_error_is_a_message_on_stderr_and_leaves_stdout_empty(call: Call) -> None:
    assert call("verify", "v9", "--json")[:2] == (1, "")
    assert call("compare", "a", "--json")[:2] == (2, "")


def test_whatever_a_library_prints_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command("noisy")
    @add_json_option
    def noisy() -> None:
        print("from a library")
        print_json({"value": float("nan"), "url": "https://me:secret@host/x"})

    noisy.main(["--json"], standalone_mode=False)
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"command": "noisy", "value": None, "url": "https://host/x"}
    assert captured.err == "from a library\n"
    noisy.main([], standalone_mode=False)
    assert capsys.readouterr().out == "from a library\n"


def test_what_a_library_in_c_prints_goes_to_stderr() -> None:
    program = """
import ctypes, os, click
from caramel.cli.output import add_json_option, print_json

@click.command("noisy")
@add_json_option
def noisy():
    ctypes.CDLL(None).puts(b"from the solver")  # held by C until its buffer is full
    os.write(1, b"from a thread of it\\n")
    print_json({"value": 1})

noisy()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"command": "noisy", "value": 1}
    assert sorted(done.stderr.splitlines()) == ["from a thread of it", "from the solver"]


def test_the_shell_completes_commands_and_options() -> None:
    def complete(words: str, index: int) -> str:
        environment = {
            **os.environ,
            "_CARAMEL_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(index),
        }
        return subprocess.run(
            [str(CARAMEL)], env=environment, capture_output=True, text=True, check=False
        ).stdout

    assert "plain,explore" in complete("caramel exp", 1)
    assert "plain,--json" in complete("caramel compare --j", 2)
