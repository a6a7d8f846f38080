"""What a plan fixes: an edit of a source or a setting changes its hash, one of what is told changes nothing."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from caramel.config.profiles import read_profile
from caramel.runtime.code_deps import CARAMEL
from caramel.runtime.code_manifest import write_manifests
from caramel.study.code_hash import hash_fixed

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("src", "pipelines", "params", "code"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    return tmp_path


def hash_of(project: Path, **sets: str) -> str:
    return hash_fixed(
        project, read_profile("study", {k.replace("__", "."): v for k, v in sets.items()}, project)[1]
    )


def test_the_hash_is_of_sources_and_settings(project: Path) -> None:
    first = hash_of(project)
    assert len(first) == 64
    assert hash_of(project) == first
    assert hash_of(project, run__device="cpu", report__examples="3", study__effect="0.5") == first
    assert hash_of(project, finetune__steps="7") != first
    assert hash_of(project, scenes__seed="6") != first


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("src/caramel/evaluation/grid.py", True),
        ("src/caramel/training/methods/trohn_img.py", True),
        ("pipelines/scenes.py", True),
        ("params/clip.json", True),
        ("src/caramel/report/page.py", False),
        ("pipelines/report.py", False),
        ("src/caramel/cli/study.py", False),
    ],
)
def test_an_edit_counts_where_a_stage_of_the_study_depends_on_the_file(
    project: Path, name: str, counts: bool
) -> None:
    first = hash_of(project)
    with (project / name).open("a", encoding="utf-8") as stream:
        stream.write("\n")
    write_manifests(project, dataclasses.replace(CARAMEL, folder=project / "src" / "caramel"))
    assert (hash_of(project) != first) is counts
