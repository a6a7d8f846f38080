"""`caramel new` makes a project whose graph needs no sources of caramel; what it cannot do leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from caramel.config.profiles import write_profile
from caramel.config.schema import load_config
from caramel.doctor.findings import FAIL, OK
from caramel.doctor.settings import check_code
from caramel.errors import CaramelError, ConfigError, ResourceError
from caramel.io.safe_yaml import flatten_mapping, read_yaml
from caramel.project.create import create_project
from caramel.runtime.code_manifest import require_listed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "mine"
    create_project(folder)
    return folder


def test_the_graph_is_that_of_this_repository(made: Path) -> None:
    graph = yaml.safe_load((made / "dvc.yaml").read_text())["stages"]
    ours = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert list(graph) == list(ours)
    for name, stage in graph.items():
        assert stage == ours[name]
        lines = (made / "code" / f"{name}.txt").read_text().splitlines()
        assert all((ROOT / "src" / line.split("  ")[1]).is_file() for line in lines)


def test_it_is_a_repository_with_params_profiles_and_what_the_readme_calls(made: Path) -> None:
    ignored = subprocess.run(
        ["git", "check-ignore", "data", "work", "params.yaml"], cwd=made, capture_output=True, text=True
    )
    assert ignored.stdout.split() == []  # folders are ignored with their stroke
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"], cwd=made, capture_output=True, text=True
    )
    assert {".dvc/config", "code/scores.txt", "requirements.txt", "mlruns/README.md"} <= {
        *listed.stdout.split()
    }
    assert load_config(made / "params.yaml").profile == "default"
    assert "caramel" in (made / "requirements.txt").read_text()
    readme = (made / "README.md").read_text()
    assert all(command in readme for command in ("dvc repro", "caramel ui", "caramel upgrade"))


def test_whatever_the_stages_depend_on_and_do_not_make_is_there(made: Path) -> None:
    values = flatten_mapping(read_yaml(made / "params.yaml", ""))
    stages = yaml.safe_load((made / "dvc.yaml").read_text())["stages"].values()
    named = {re.sub(r"\$\{(.+?)\}", lambda key: values[key[1]], d) for stage in stages for d in stage["deps"]}
    assert {"inputs", "inputs/replies", "params/clip.json"} <= named
    assert [dep for dep in sorted(named) if not dep.startswith("data/") and not (made / dep).exists()] == []


def test_every_profile_is_there(made: Path) -> None:
    for profile in (ROOT / "params").glob("*.yaml"):
        assert (made / "params" / profile.name).read_bytes() == profile.read_bytes()


@pytest.mark.parametrize(("mebibytes", "inodes"), [(1, None), (50, 20)])
def test_on_a_full_volume_nothing_is_made_and_the_message_does_not_say_that_something_was_kept(
    mebibytes: int, inodes: int | None, tmp_path: Path, mount: Callable[..., Path]
) -> None:
    volume = mount(tmp_path / "volume", mebibytes, inodes)
    with suppress(OSError), (volume / "other").open("wb", buffering=0) as stream:
        while inodes is None:
            stream.write(bytes(2**12))
    done = subprocess.run(
        [Path(sys.executable).with_name("caramel"), "new", "mine"],
        cwd=volume,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stdout) == (1, "")
    said = (
        "has 0 MiB free. Free some space there"
        if inodes is None
        else "but no inodes for new files. Remove files there"
    )
    assert f"its volume {volume} " in done.stderr
    assert said in done.stderr
    assert "kept" not in done.stderr
    assert done.stderr.endswith("Then run the same command again.\n")
    assert [path.name for path in volume.iterdir()] == ["other"]


def test_a_stage_runs_with_the_sources_that_are_listed_and_with_no_others(made: Path, tmp_path: Path) -> None:
    require_listed("scenes", made)
    require_listed("of_ones_own", made)  # which lists none
    assert check_code(made).state == OK
    sums = made / "code" / "scenes.txt"
    whole = sums.read_text()
    try:
        sums.write_text(whole.replace(whole[:64], "0" * 64))
        with pytest.raises(
            ConfigError, match=r"(?s)code/scenes.txt lists; .*interfaces/source.py.*caramel upgrade"
        ):
            require_listed("scenes", made)
        assert (check_code(made).state, check_code(made).cure) == (FAIL, "caramel upgrade")
        assert check_code(made).text.endswith("in code/ for scenes")
        sums.write_text("nonsense\n")
        with pytest.raises(CaramelError, match="not a sum and a name"):
            require_listed("scenes", made)
        assert check_code(made).state == FAIL
    finally:
        sums.write_text(whole)


@pytest.mark.parametrize(("there", "said"), [("file", "is a file"), ("mine/file", "holds files")])
def test_what_is_there_already_stays_as_it_is(there: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / there
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    with pytest.raises(ConfigError, match=said):
        create_project(tmp_path / there.partition("/")[0])
    assert path.read_text() == "x"


@pytest.mark.parametrize(("name", "there"), [("mine", True), ("mine", False), ("all/of/mine", False)])
def test_what_fails_leaves_nothing(
    name: str, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    if there:
        folder.mkdir()
    (tmp_path / "git").write_text("#!/bin/sh\necho no >&2; exit 1\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResourceError, match=r"git init.* no"):
        create_project(folder)
    assert list(folder.iterdir()) == [] if there else not (tmp_path / name.partition("/")[0]).exists()
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(ResourceError, match="git is not installed"):
        create_project(folder)


def test_outside_of_a_project_a_profile_is_told_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"params/.*caramel new DIR"):
        write_profile("smoke", {}, tmp_path)
