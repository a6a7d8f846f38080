"""What a version has is taken as it was pinned, or it is told that it is elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import released_projects

from caramel.errors import DataError
from caramel.release.publishing.build import build_release
from caramel.release.publishing.contents import VersionContents

BLIND = "data/refine/blind.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = released_projects.made(tmp_path_factory.mktemp("project"))
    figures = {"length": {"all": {"accuracy": 0.5}}}
    (root / BLIND).write_text(json.dumps(figures), encoding="utf-8")
    released_projects.pinned(root, "v2")
    return root


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "project"))


def test_figures_are_those_of_the_version_and_none_where_it_has_none(project: Path) -> None:
    contents = VersionContents("v2", project)
    assert contents.load_json(BLIND) == {"length": {"all": {"accuracy": 0.5}}}
    assert contents.load_json("data/refine/other.json") == contents.load_json("data/generator/x.json") == {}


def test_figures_that_are_not_on_disk_as_pinned_are_not_said_to_be_none(project: Path) -> None:
    (project / BLIND).write_text("{}", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"data/refine of version 'v2' is not on disk as it was pinned.*caramel get"
    ):
        build_release("v2", project, out=project / "out")
    shutil.rmtree(project / "data" / "refine")
    with pytest.raises(DataError, match="not on disk as it was pinned"):
        VersionContents("v2", project).load_json(BLIND)
