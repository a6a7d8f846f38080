"""The notebooks of the documentation run as they are, and are stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def read_cells(path: Path, cell_type: str) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return [cell for cell in notebook["cells"] if cell["cell_type"] == cell_type]


def run_cells(path: Path) -> dict[str, Any]:
    """Run the cells one after the other in one namespace, as Jupyter does; return the namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in read_cells(path, "code"):
        exec(compile("".join(cell["source"]), f"{path.name}:{cell['id']}", "exec"), names)
    return names


def test_there_are_two_notebooks_without_outputs() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["audit_a_set", "score_in_training"]
    for path in NOTEBOOKS:
        cells = read_cells(path, "code")
        assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells), path.name
        assert read_cells(path, "markdown")[0]["source"][0].startswith("# ")


def test_the_audit_finds_the_flaw_and_refinement_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_cells(NOTEBOOKS[0])
    assert names["best"]["ci_low"] > 0.55
    assert names["after"]["micro"] < names["best"]["micro"]
    assert "solved without an image" in capsys.readouterr().out
    assert not [*tmp_path.iterdir()], "nothing is written"


def test_the_trained_model_is_scored_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.mkdtemp", lambda *_, **__: str(tmp_path))
    names = run_cells(NOTEBOOKS[1])
    first, *_, last = (score.overall["accuracy"] for score in names["scores"])
    assert last > first
    assert names["model"].training
