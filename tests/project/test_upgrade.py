"""`caramel upgrade` names exactly the stages whose code or files another caramel has changed, and leaves the user's edits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from commands import run_command

from caramel.errors import ConfigError, DataError
from caramel.io.files import compute_file_hash, write_atomically
from caramel.project import create
from caramel.project.create import create_project
from caramel.project.project_files import build_project_files
from caramel.project.upgrade import ASIDE, upgrade_project
from caramel.runtime.code_deps import CARAMEL, Package
from caramel.runtime.code_manifest import find_outdated_sums

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "mine"
    create_project(folder)
    return folder


@pytest.fixture
def project(fresh: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fresh, tmp_path / "mine"))


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Package]:
    """Return a function that gives caramel with one more line in a module."""

    def make(module: str) -> Package:
        folder = tmp_path_factory.mktemp("installed") / "caramel"
        shutil.copytree(CARAMEL.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
        with (folder / module).open("a") as stream:
            stream.write("# another line\n")
        return replace(CARAMEL, folder=folder)

    return make


def test_the_same_caramel_changes_nothing(project: Path) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    done = upgrade_project(project)
    assert (done.written, done.conflicts, done.rerun, done.after) == ((), (), {}, ())
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def test_exactly_the_stages_that_reach_a_changed_module_are_named_and_then_current(
    project: Path, edited: Callable[[str], Package]
) -> None:
    package = edited("refine/mirrored_grid.py")
    reach = {
        name
        for name in yaml.safe_load((project / "dvc.yaml").read_text())["stages"]
        if "caramel/refine/mirrored_grid.py" in (project / "code" / f"{name}.txt").read_text()
    }
    assert {*find_outdated_sums(project, package)} == reach
    done = upgrade_project(project, package)
    assert dict(done.rerun) == dict.fromkeys(reach, ("caramel/refine/mirrored_grid.py",))
    assert "refine" in reach
    assert {"synthesize", "report"} <= {*done.after} | reach
    assert not {"scenes", "negatives", "scores"} & {*done.after}
    assert upgrade_project(project, package).rerun == {}


def test_what_carries_the_work_but_does_not_shape_it_reruns_nothing(
    project: Path, edited: Callable[[str], Package]
) -> None:
    assert upgrade_project(project, edited("runtime/mlflow/tracking.py")).rerun == {}


def test_new_files_of_caramel_are_written_but_never_over_the_users(project: Path) -> None:
    files = build_project_files()
    for name in ("pipelines/scores.py", "pipelines/refine.py", "params/smoke.yaml", "README.md"):
        files[name] += b"# new\n"
    own = (project / "pipelines" / "refine.py").read_text() + "# mine\n"
    (project / "pipelines" / "refine.py").write_text(own)
    (project / "pipelines" / "report.py").open("a").write("# mine alone\n")
    done = upgrade_project(project, files=files)
    assert done.written == ("params/smoke.yaml", "pipelines/scores.py")
    assert done.conflicts == ("pipelines/refine.py",)
    assert (project / "pipelines" / "refine.py").read_text() == own
    assert (project / ASIDE / "pipelines" / "refine.py").read_bytes() == files["pipelines/refine.py"]
    assert dict(done.rerun) == {"scores": ("pipelines/scores.py",)}
    assert done.after[0] == "refine"
    assert "caramel" in (project / "README.md").read_text()
    again = upgrade_project(project, files=files)
    assert (again.written, again.conflicts, again.rerun) == ((), (), {}), "it is told once"


def test_a_folder_of_inputs_that_is_new_is_made_and_what_lies_in_one_stays(project: Path) -> None:
    shutil.rmtree(project / "inputs" / "replies")
    (project / "inputs" / "zero_shot" / "README.md").unlink()
    assert upgrade_project(project).written == ("inputs/replies/README.md",)
    assert [*(project / "inputs" / "zero_shot").iterdir()] == []
    assert upgrade_project(project).written == ()


def test_a_stage_whose_story_changed_is_named(project: Path) -> None:
    files = build_project_files()
    files["dvc.yaml"] = files["dvc.yaml"].replace(b"params: [refine, scores]", b"params: [refine]")
    assert dict(upgrade_project(project, files=files).rerun) == {"refine": ("dvc.yaml",)}


def test_what_is_no_longer_part_of_caramel_is_named_once_and_stays(project: Path) -> None:
    files = build_project_files()
    del files["pipelines/scores.py"], files["params/smoke.yaml"]
    graph = yaml.safe_load(files["dvc.yaml"])
    del graph["stages"]["scores"]
    files["dvc.yaml"] = yaml.safe_dump(graph, sort_keys=False).encode()
    gone = ("code/scores.txt", "params/smoke.yaml", "pipelines/scores.py")
    assert upgrade_project(project, files=files).dropped == gone
    assert all((project / name).is_file() for name in gone)
    assert upgrade_project(project, files=files).dropped == ()


@pytest.mark.parametrize("writes", [1, 4])
def test_an_upgrade_that_was_cut_off_is_told_whole_by_the_next_one(
    writes: int, project: Path, edited: Callable[[str], Package], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = build_project_files()
    files["pipelines/scores.py"] += b"# new\n"
    files["dvc.yaml"] = files["dvc.yaml"].replace(b"params: [refine, scores]", b"params: [refine]")
    package = edited("refine/mirrored_grid.py")
    other = Path(shutil.copytree(project, project.with_name("other")))
    left = [writes]

    def cut_off(path: Path, put: Callable[[Path], object]) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        write_atomically(path, put)

    monkeypatch.setattr(create, "write_atomically", cut_off)
    with pytest.raises(KeyboardInterrupt):
        upgrade_project(project, package, files)
    monkeypatch.undo()
    assert upgrade_project(project, package, files) == upgrade_project(other, package, files)
    assert upgrade_project(project, package, files).rerun == {}


def test_no_project_and_broken_ones_are_refused(project: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dvc\.yaml is missing"):
        upgrade_project(tmp_path)
    (project / "pipelines" / "scores.py").write_text("def (")
    with pytest.raises(DataError, match=r"scores\.py cannot be read as a stage's script"):
        upgrade_project(project)
    for broken in ("{a: 3}", "{a: {deps: 3}}", "{a: {outs: [3]}}", "{a: {metrics: null}}"):
        (project / "dvc.yaml").write_text(f"stages: {broken}\n")
        with pytest.raises(ConfigError, match="stage 'a' has the wrong form for DVC"):
            upgrade_project(project)
    (project / "dvc.yaml").write_text("stages: 3\n")
    with pytest.raises(ConfigError, match="has no stages"):
        upgrade_project(project)
    with pytest.raises(
        ConfigError, match="is caramel's own repository, so it is not a project made by `caramel new`"
    ):
        upgrade_project(ROOT)
    shutil.rmtree(project / "code")
    (project / "dvc.yaml").write_text("stages: {}\n")
    with pytest.raises(ConfigError, match="not a project made by `caramel new`"):
        upgrade_project(project)


@pytest.mark.parametrize("name", ["code", "pipelines", "params"])
def test_a_linked_folder_is_refused_and_what_it_leads_to_stays_as_it_is(
    name: str, project: Path, tmp_path: Path
) -> None:
    elsewhere = (project / name).rename(tmp_path / "elsewhere")
    (project / name).symlink_to(elsewhere)
    (project / "code/scores.txt").write_text("")  # out of date
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = run_command(project, "upgrade")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"'{name}' is a link to '{elsewhere}', and an upgrade writes into this folder" in done.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["work/upgrade", "work/upgrade/pipelines", "work/upgrade_from"])
def test_nothing_is_put_beside_through_a_link(name: str, project: Path, tmp_path: Path) -> None:
    script = project / "pipelines" / "scores.py"
    script.write_text("# mine\n", encoding="utf-8")
    sums = project / "code" / "project.sums"
    sums.write_text(
        sums.read_text().replace(compute_file_hash(ROOT / "pipelines" / "scores.py"), "0" * 64)
    )  # both changed it
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "pipelines").mkdir(parents=True)
    for place in ("scores.py", "pipelines/scores.py"):
        (elsewhere / place).write_text("another's", encoding="utf-8")
    (project / name).parent.mkdir(parents=True)
    (project / name).symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = run_command(project, "upgrade")
    assert f"'{name}' is a link to '{elsewhere}'" in done.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped", ".."])
def test_a_stage_whose_name_is_a_path_is_refused(name: str, project: Path) -> None:
    graph = yaml.safe_load((project / "dvc.yaml").read_text(encoding="utf-8"))
    graph["stages"][name] = {"cmd": "x", "deps": [f"code/{name}.txt"]}
    (project / "dvc.yaml").write_text(yaml.safe_dump(graph), encoding="utf-8")
    before = sorted(project.parent.rglob("*"))
    with pytest.raises(ConfigError, match="an invalid name, which would be a path"):
        upgrade_project(project)
    assert sorted(project.parent.rglob("*")) == before
