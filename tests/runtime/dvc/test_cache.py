"""What is broken in DVC's cache is found by its name, and removed, so that DVC makes it again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from commands import run_command
from dvc_commands import run_dvc

from caramel.doctor.local import fix_project
from caramel.doctor.versions import check_dvc_repository
from caramel.runtime.dvc import cache

GRAPH = "stages:\n  made: {cmd: mkdir -p b && cp a b && echo >> ran, deps: [a], outs: [b]}\n"


def dvc(folder: Path, *words: str) -> str:
    done = run_dvc(words, folder, os.environ)
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of one stage whose output is a folder; it notes in ``ran`` that it ran."""
    folder = tmp_path_factory.mktemp("cached")
    (folder / "dvc.yaml").write_text(GRAPH, encoding="utf-8")
    (folder / "a").write_text("1", encoding="utf-8")
    dvc(folder, "init", "-q", "--no-scm")
    dvc(folder, "repro", "-q")
    return folder


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "project"))


def damage(path: Path) -> Path:
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1])
    path.chmod(0o444)  # as DVC has it, and for what it is trusted
    return path


def ran(project: Path) -> int:
    return len((project / "ran").read_text().splitlines())


def test_a_whole_cache_is_left_as_it_is(project: Path) -> None:
    assert cache.find_broken_entries(project, whole=True) == []
    assert list(fix_project(project)) == []
    assert check_dvc_repository(project).text.startswith("no remote")


@pytest.mark.parametrize(
    "link", ["cache", "cache/files", "cache/files/md5", "cache/files/md5/ab", "cache/runs", "cache/runs/ab"]
)
def test_nothing_behind_a_link_in_the_cache_is_removed(link: str, project: Path, tmp_path: Path) -> None:
    letters = tmp_path / "letters"
    for inside in ("", "ab", "md5/ab", "files/md5/ab", "runs/ab"):
        (letters / inside / "empty").mkdir(parents=True)
        (letters / inside / "letter.txt").write_text("mine")
    before = sorted(letters.rglob("*"))
    place = project / ".dvc" / link
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(letters)
    run_command(project, "doctor", "--fix")
    assert sorted(letters.rglob("*")) == before


def test_a_stage_whose_list_of_files_is_damaged_does_not_run_each_time(project: Path) -> None:
    damaged = damage(next(project.glob(".dvc/cache/files/md5/??/*.dir")))
    assert cache.find_broken_entries(project, whole=False) == [damaged]
    dvc(project, "repro")
    dvc(project, "repro")
    assert ran(project) == 3  # DVC does not mend it by itself
    assert any("removed" in line for line in fix_project(project))
    dvc(project, "repro")
    before = ran(project)
    dvc(project, "repro")
    assert ran(project) == before
    assert cache.find_broken_entries(project, whole=True) == []


def test_an_empty_run_in_the_cache_no_longer_stops_its_stage(project: Path) -> None:
    run = next(project.glob(".dvc/cache/runs/??/*/*"))
    run.unlink()
    shutil.rmtree(project / "b")
    (project / "dvc.lock").unlink()
    assert "failed to reproduce" in dvc(project, "repro")
    assert check_dvc_repository(project).cure == "caramel doctor --fix"
    assert cache.find_broken_entries(project, whole=False) == [run.parent]
    assert any("removed" in line for line in fix_project(project))
    dvc(project, "repro")
    assert (project / "b" / "a").read_text() == "1"


def test_a_damaged_object_is_not_put_into_data_again(project: Path) -> None:
    damaged = damage(next(path for path in project.glob(".dvc/cache/files/md5/??/*") if not path.suffix))
    assert cache.find_broken_entries(project, whole=True) == [damaged]
    assert any("removed" in line for line in fix_project(project))
    shutil.rmtree(project / "b")
    dvc(project, "repro")
    assert (project / "b" / "a").read_text() == "1"
