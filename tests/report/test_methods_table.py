"""The script that makes the tables of methods in docs/results.md reads what `evaluate` writes today."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from scripts import load_script
from synthetic import write_all

SCRIPT = Path(__file__).parents[2] / "bench" / "methods.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_script(SCRIPT, "tables_of_methods")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("methods")
    write_all(root / "data", per_subtype=4)
    return root / "data" / "evaluate"


def test_what_a_method_keeps_stands_with_the_interval_of_its_change_and_the_base_has_none(
    tool: ModuleType, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "DATA", data)
    head, *rows = tool.build_scores_table()
    place = head.index("I→T R@1")
    by_name = {row[0]: row for row in rows}
    assert by_name["infonce"][place].endswith("(−3.0 [−5.0, −1.0])")
    assert "(" not in by_name["base"][place]
    assert all("(" not in row[head.index("weights moved")] for row in rows)


def test_differences_have_their_intervals(
    tool: ModuleType, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "DATA", data)
    head, *rows = tool.build_differences_table()
    assert {row[0] for row in rows} >= {"infonce − base", "trohn_img − base", "trohn_img − infonce"}
    assert all("[" in cell and len(row) == len(head) for row in rows for cell in row[1:])
