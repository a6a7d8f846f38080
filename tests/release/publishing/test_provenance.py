"""Provenance has the stages that the released tables come from, and only those whose outputs are the pin's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from caramel.release.pin_file import Pin
from caramel.release.publishing.provenance import build_provenance

ROWS = "data/assemble/instances.parquet"


def digest(number: int) -> str:
    return f"{number:032x}"


def stage(outs: dict[str, int], deps: dict[str, int]) -> dict[str, Any]:
    return {
        "cmd": "python x.py --token secret",
        "deps": [{"path": path, "hash": "md5", "md5": digest(n)} for path, n in deps.items()],
        "outs": [{"path": path, "hash": "md5", "md5": digest(n)} for path, n in outs.items()],
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    stages = {
        "scenes": stage({"data/scenes": 1}, {"pipelines/scenes.py": 11, "/home/me/photos": 12}),
        "refine": stage({"data/refine": 2}, {"data/scenes/pairs.parquet": 13, "code/refine.txt": 14}),
        "assemble": stage({"data/assemble": 3}, {"data/refine": 2}),
        "evaluate": stage({"data/evaluate": 4}, {"data/assemble": 3}),
    }
    (tmp_path / "dvc.lock").write_text(json.dumps({"schema": "2.0", "stages": stages}), encoding="utf-8")
    return tmp_path


def pin(**outs: int) -> Pin:
    named = {f"data/{name}": digest(number) for name, number in outs.items()}
    return Pin(
        name="v1", created="2026-01-01", commit="unknown", data="0" * 64, params={}, outs=named, tables={}
    )


def test_the_stages_are_those_before_the_released_tables(root: Path) -> None:
    found = build_provenance(pin(scenes=1, refine=2, assemble=3, evaluate=4), [ROWS], root)
    stages = {activity["prov:label"]: activity for activity in found["prov:wasGeneratedBy"]}
    assert list(stages) == ["scenes", "refine", "assemble"]
    assert stages["assemble"]["prov:used"] == [{"@id": f"data/refine#{digest(2)}"}]
    inputs = [entity["prov:label"] for entity in found["prov:wasDerivedFrom"]]
    assert inputs == ["code/refine.txt", "pipelines/scenes.py"]


def test_neither_commands_nor_paths_outside_the_project_are_published(root: Path) -> None:
    text = json.dumps(build_provenance(pin(scenes=1, refine=2, assemble=3), [ROWS], root))
    assert "secret" not in text
    assert "/home/me" not in text


def test_a_stage_that_ran_again_since_the_pin_is_left_out(root: Path) -> None:
    found = build_provenance(pin(scenes=1, refine=9, assemble=3), [ROWS], root)
    assert [activity["prov:label"] for activity in found["prov:wasGeneratedBy"]] == ["assemble"]
    assert [entity["prov:label"] for entity in found["prov:wasDerivedFrom"]] == ["data/refine"]


def test_without_a_lock_only_the_program_is_named(tmp_path: Path) -> None:
    assert list(build_provenance(pin(assemble=3), [ROWS], tmp_path)) == ["prov:wasAttributedTo"]
