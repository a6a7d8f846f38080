"""Strikes do what they are called, and what they want is seen where it comes about."""

import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from remote_projects import run
from ruamel.yaml import YAML
from sandbox import OF_OTHERS
from strikes import FAULTS, MODULES, WITH_FILES, Fault, _link, _open_folder, _plant, _use_up_inodes, strike
from struck_run import Event, Run
from verdicts import reached_outside


@pytest.fixture
def sandbox(tmp_path: Path) -> SimpleNamespace:
    """A sandbox without volumes, where stage s writes two files."""
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "there.csv").touch()
    outs = ["data/there.csv", "data/new/x.csv", "data/folder"]
    return SimpleNamespace(root=tmp_path, folder=folder, stages=lambda: {"s": outs}, processes=lambda: [])


def test_settings_are_planted_that_git_obeys_and_the_program_is_seen(sandbox: SimpleNamespace) -> None:
    run("git", "init", "-q", root=sandbox.folder)
    _plant(sandbox)
    assert reached_outside(sandbox) == []
    run("git", "status", root=sandbox.folder, check=False)
    assert reached_outside(sandbox) == ["a program that was planted was run"]


@pytest.mark.parametrize("name", MODULES)
def test_a_planted_module_is_seen_where_the_folder_is_searched_for_it(
    sandbox: SimpleNamespace, name: str
) -> None:
    strike(Fault("plant", "python"), sandbox, None, "s", random.Random(0))  # type: ignore[arg-type]
    run(sys.executable, "-I", "-c", "pass", root=sandbox.folder)
    assert reached_outside(sandbox) == []
    code = f"import sys; sys.path.insert(0, ''); sys.modules.pop({name!r}, None); import {name}"
    run(sys.executable, "-I", "-c", code, root=sandbox.folder)
    (said,) = reached_outside(sandbox)
    assert said == f"a program that was planted was run {sandbox.folder / name}.py"


@pytest.mark.parametrize("name", OF_OTHERS)
@pytest.mark.parametrize("change", [Path.unlink, Path.touch])
def test_a_folder_of_the_cache_becomes_a_link_and_what_is_done_behind_it_is_seen(
    sandbox: SimpleNamespace, name: str, change: Callable[[Path], None]
) -> None:
    fault, rng, folder = Fault("link", "cache"), random.Random(0), sandbox.folder / ".dvc/cache/files/md5/ab"
    assert strike(fault, sandbox, None, "s", rng) is None, "there is no cache"  # type: ignore[arg-type]
    folder.mkdir(parents=True)
    assert strike(fault, sandbox, None, "s", rng) is not None  # type: ignore[arg-type]
    assert strike(fault, sandbox, None, "s", rng) is None, "it is one"  # type: ignore[arg-type]
    assert reached_outside(sandbox) == []
    change(folder / name)
    (folder / "new").touch()  # as DVC itself does
    assert reached_outside(sandbox) == (
        ["a file that a link leads to was changed"] if change is Path.unlink else []
    )


def test_a_link_is_put_where_a_file_will_be_and_what_is_written_through_it_is_seen(
    sandbox: SimpleNamespace,
) -> None:
    struck = _link(sandbox, "s", random.Random(0))
    assert struck is not None
    assert struck.place.startswith("data/new/x.csv")
    assert reached_outside(sandbox) == []
    (sandbox.folder / "data" / "new" / "x.csv").write_text("rows")
    assert reached_outside(sandbox) == ["a file that a link leads to was changed"]
    assert _link(sandbox, "s", random.Random(0)) is None, "all is there"


@pytest.mark.parametrize("kind", ["widen", "remove"])
def test_the_private_folder_of_ray_is_opened_or_removed_where_there_is_one(
    kind: str, sandbox: SimpleNamespace
) -> None:
    assert _open_folder(sandbox, kind) is None
    private = sandbox.root / "tmp" / f"caramel-{os.geteuid()}"
    private.mkdir(parents=True, mode=0o700)
    (private / "0.lock").touch()
    assert _open_folder(sandbox, kind) is None, "no session of Ray runs"
    (private / "0").mkdir()
    assert _open_folder(sandbox, kind) is not None
    assert private.exists() == (kind == "widen")
    assert kind == "remove" or private.stat().st_mode & 0o777 == 0o777


def test_a_volume_without_inodes_takes_no_file_until_it_is_relieved(mount, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    volume = mount(tmp_path / "small", 8)
    struck = _use_up_inodes(volume)
    with pytest.raises(OSError, match="No space left"):
        (volume / "x").touch()
    assert shutil.disk_usage(volume).free > 2**20
    struck.relieve()
    (volume / "x").touch()


def test_faults_on_ray_strike_stages_that_use_it() -> None:
    on_ray = {str(fault) for fault in FAULTS if fault.stages(["scenes", "finetune"]) == ["finetune"]}
    assert {"kill:starting raylet", "remove:ray", "widen:ray"} <= on_ray


def test_a_link_strikes_all_stages_with_an_output_that_is_a_file_and_no_others() -> None:
    stages = YAML(typ="safe").load(Path(__file__).parents[2] / "dvc.yaml")["stages"]
    outs = {name: [*stage["outs"], *stage.get("metrics", ())] for name, stage in stages.items()}
    with_files = [name for name, paths in outs.items() if any(Path(path).suffix for path in paths)]
    assert Fault("link", "output").stages([*stages]) == with_files == list(WITH_FILES)


def test_a_link_is_no_strike_where_the_output_is_written_at_that_moment(
    sandbox: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_the_race(self: Path, target: Path) -> None:
        raise FileExistsError

    monkeypatch.setattr(Path, "symlink_to", lose_the_race)
    rng = SimpleNamespace(random=lambda: 0.9, choice=lambda outs: outs[0])
    assert _link(sandbox, "s", rng) is None  # type: ignore[arg-type]


def test_a_fault_that_came_too_late_is_not_moved_to_a_stage_where_it_cannot_strike(
    sandbox: SimpleNamespace, tmp_path: Path
) -> None:
    sandbox.stages = lambda: {
        "refine": ["data/there.csv"],
        "pretrain": ["data/base"],
        "report": ["data/r.html"],
    }
    running = iter(["pretrain", "pretrain", "report"])
    attempt = SimpleNamespace(
        ended=lambda: False,
        wait=lambda until, seconds: True,
        driver=lambda stage: SimpleNamespace(is_running=lambda: True),
        stage=lambda: next(running),
    )
    run = Run(sandbox, tmp_path, random.Random(0))  # type: ignore[arg-type]
    run.attempt = attempt  # type: ignore[assignment]
    event = Event(0, "link:output", "refine", 0.0, at_end=False)
    _, struck = run._strike(event)
    assert event.stage == "report"
    assert struck.place.startswith("data/r.html")
