"""What the commands of releases say, and the audit that stands in one."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import released_projects

from caramel.cli.commands import run_cli
from caramel.cli.release import _write_audit


def test_a_release_says_what_is_open_and_one_error_with_strict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(released_projects.made(tmp_path))
    assert run_cli(["release", "v1", "--out", "a:whole"]) == 0
    said = capsys.readouterr()
    assert "files, " in said.out
    assert said.err == "No audit: no type has enough images to train on.\n"
    (tmp_path / "release.yaml").unlink()
    assert run_cli(["release", "v1", "--out", "open", "--no-audit"]) == 0
    assert "- licence: not stated" in capsys.readouterr().err
    assert run_cli(["release", "v1", "--out", "refused", "--strict"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: Version 'v1' is not ready")
    assert error.count("Error") == 1
    assert run_cli(["release", "v2", "--out", "gone"]) == 1
    assert capsys.readouterr().err == "Error: There is no pin 'v2'. Pins: v1.\n"
    assert run_cli(["release-model", "base", "--out", "gone"]) == 1
    assert "There is no model of a run 'base'" in capsys.readouterr().err
    assert not Path("gone").exists()


def test_the_audit_of_a_release_says_nothing_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("caramel.blind.scorer_specs.list_default_scorers", lambda: ("length", "casing"))
    rows = [
        (
            f"p{n}",
            f"i{n}",
            f"A caption {n}.",
            None,
            f"Not {'so ' * (n % 3)}{n}.",
            None,
            "swap",
            "swap_obj",
            "test",
            None,
        )
        for n in range(40)
    ]
    columns = list(released_projects.instances().columns)
    for folder in ("one", "two"):
        _write_audit(pd.DataFrame(rows, columns=columns), tmp_path / folder)
    files = sorted((tmp_path / "one" / "audit").iterdir())
    assert {"audit.json", "audit.html", "badge.svg"} <= {path.name for path in files}
    assert all(path.read_bytes() == (tmp_path / "two" / "audit" / path.name).read_bytes() for path in files)
    (attack,) = json.loads((tmp_path / "one" / "audit" / "audit.json").read_text(encoding="utf-8"))["attacks"]
    assert set(attack["seconds"].values()) == {0.0}
