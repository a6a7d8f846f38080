"""A study runs the graph cell by cell by DVC: what cells share is run once, and a killed study goes on.

The graph here has the form of the real one (stages, params, outputs, tables), and stages that take no time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from commands import find_stray_stores

from caramel.errors import ConfigError, ResourceError
from caramel.runtime.mlflow.store import count_runs
from caramel.schemas.io import read_table
from caramel.schemas.study import STUDY
from caramel.study.workspace import hold_study_lock, prepare_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
GRAPH = """stages:
  scenes:
    cmd: python pipelines/stage.py scenes
    params: [scenes, negatives]
    deps: [pipelines/stage.py, inputs]
    outs: [data/scenes]
  pretrain:
    cmd: python pipelines/stage.py pretrain
    params: [pretrain]
    deps: [data/scenes]
    outs: [data/pretrain]
  train_generator:
    cmd: python pipelines/stage.py train_generator
    params: [train_generator]
    deps: [data/scenes]
    outs: [data/train_generator]
  evaluate:
    cmd: python pipelines/stage.py evaluate
    params: [finetune, evaluate]
    deps: [data/pretrain, data/train_generator]
    outs: [data/evaluate]
  report:
    cmd: "false"
    deps: [data/evaluate]
    outs: [data/report]
"""
STAGE = """
import os, sys, time
from pathlib import Path
import yaml

name, params = sys.argv[1], yaml.load(Path("params.yaml").read_text(), yaml.CSafeLoader)
with open(os.environ["RAN"], "a") as stream:
    stream.write(name + "\\n")
if len(Path(os.environ["RAN"]).read_text().split()) == int(os.environ["HELD"]):
    time.sleep(60)
out = Path("data", name)
out.mkdir(parents=True, exist_ok=True)
if name == "evaluate":
    import numpy as np, pandas as pd
    from caramel.config.schema import load_config
    from caramel.schemas.evaluation import METRICS, SIMILARITIES
    from caramel.schemas.io import build_frame, write_table
    from caramel.evaluation.results.summary import summarise_similarities
    from caramel.utils.resampling import Bootstrap
    from caramel.registry import BENCHMARKS

    config = load_config()
    rng = np.random.default_rng([config.pretrain.seed, config.train_generator.seed, config.scenes.seed])
    models = ["base", *(f"{v}-{s}" for v in config.finetune.variants for s in config.finetune.seeds)]
    rows = pd.DataFrame(
        [
            {"instance_id": f"{i}:x", "image_id": str(i), "model": model, "benchmark": "instances",
             "subsets": ["without_add", ("seen", "unseen")[i % 2]],
             **dict(zip(("s_c0_i0", "s_c1_i0", "s_c0_i1", "s_c1_i1"), rng.normal([1, 0, 0, 1], 1)))}
            for model in models for i in range(40)
        ]
    )
    rows = build_frame(SIMILARITIES, rows)
    write_table(SIMILARITIES, rows, out / "similarities.parquet")
    found = summarise_similarities(rows, {"instances": BENCHMARKS["instances"]}, bootstrap=Bootstrap(100, 0))
    write_table(METRICS, found, out / "metrics.parquet")
else:
    (out / "seed.txt").write_text(f"{params[name]['seed']} of {params['scenes']['seed']}")
"""
TRACKED = """
if name == "evaluate":
    from caramel.runtime.mlflow import tracking

    with tracking.run(name, key=str(config.scenes.seed), params={}, data=[], tags={}):
        pass
"""
# What a shell starts in the background ignores Ctrl-C, and so does all that it starts.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from caramel.cli import main
main()
"""
ARMS = ["infonce", "pairs_unpaired", "trohn_img"]  # with those of the primary comparison
ALL = ["scenes", "pretrain", "train_generator", "evaluate"]


class Study:
    """A project with a small graph, and the study in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ran = folder, folder / "ran.txt"
        shutil.copytree(ROOT / "params", folder / "params")
        for name in ("src", "pipelines", "expectations", "inputs", ".dvc"):
            (folder / name).mkdir()
        (folder / "inputs" / "README.md").write_text("nothing")
        (folder / "pipelines" / "stage.py").write_text(STAGE)
        (folder / "dvc.yaml").write_text(GRAPH)
        shutil.copytree(ROOT / "plans", folder / "plans")
        for name in (".dvcignore", ".dvc/config"):
            shutil.copy(ROOT / name, folder / name)

    def start(self, draws: str, held: int = 0) -> subprocess.Popen[str]:
        """Start a study; the stage that is the ``held``-th to run waits for its end."""
        command = [
            sys.executable,
            "-c",
            INTERRUPTIBLE,
            "study",
            "--set",
            f"study.draws={draws}",
            "--set",
            f"finetune.variants=[{', '.join(ARMS)}]",
        ]
        source = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "RAN": str(self.ran),
            "HELD": str(held),
            "PYTHONPATH": os.pathsep.join(source),
        }
        environment.pop("DVC_ROOT", None)
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, draws: str) -> list[str]:
        """Run a study to its end; return the stages that were run for it."""
        before = len(self.stages())
        done = self.start(draws)
        said, errors = done.communicate()
        assert done.returncode == 0, said + errors
        return self.stages()[before:]

    def stages(self) -> list[str]:
        return self.ran.read_text().split() if self.ran.exists() else []

    def cells(self) -> list[dict[str, float]]:
        found: list[dict[str, float]] = json.loads((self.folder / "study" / "study.json").read_text())[
            "contrast"
        ]["cells"]
        return found

    def wait_for(self, count: int) -> None:
        limit = time.monotonic() + 120
        while len(self.stages()) < count:
            assert time.monotonic() < limit, self.stages()
            time.sleep(0.05)


def test_a_study_shares_stages_goes_on_after_a_kill_and_takes_more_cells(tmp_path: Path) -> None:
    study = Study(tmp_path)
    killed = study.start("[[2, 1], [1, 1]]", held=5)
    study.wait_for(5)  # in the second cell, whose generator alone is new
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert study.stages() == [*ALL, "train_generator"]
    assert not (tmp_path / "study").exists(), "what is written is complete"
    assert study.run("[[2, 1], [1, 1]]") == ["train_generator", "evaluate", *ALL]
    first = study.cells()
    assert study.run("[[2, 1], [1, 2]]") == ["pretrain", "evaluate"], "all else is taken from what was run"
    assert study.cells()[:3] == first
    assert len(study.cells()) == 4
    rows = read_table(STUDY, tmp_path / "study" / "study.parquet")
    assert rows.groupby(["scenes", "generator", "base"]).ngroups == 4
    assert {*rows["variant"]} == {"base", *ARMS}
    assert (tmp_path / "study" / "study.html").stat().st_size > 1000


def test_the_stages_of_a_study_track_in_its_own_store_and_leave_none_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    other = f"sqlite:///{tmp_path}/other.db"
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        monkeypatch.setenv(name, other)
    study = Study(tmp_path / "project")
    (study.folder / "pipelines" / "stage.py").write_text(STAGE + TRACKED)
    assert study.run("[[1, 1], [1, 1]]")
    store = study.folder / "work" / "study" / "mlruns"
    assert count_runs(store / "mlflow.db")[0] >= 2
    assert not find_stray_stores(study.folder, store)
    assert not (tmp_path / "other.db").exists()


def test_an_interrupted_study_leaves_no_stage_at_work(tmp_path: Path) -> None:
    study = Study(tmp_path)
    interrupted = study.start("[[1, 1], [1, 1]]", held=1)
    study.wait_for(1)
    interrupted.send_signal(signal.SIGINT)  # to this one process, as `kill` does
    _, errors = interrupted.communicate()
    assert interrupted.returncode == 130
    assert "Interrupted. Run the same command again to go on." in errors
    limit = time.monotonic() + 20
    while at_work := [each for each in psutil.process_iter(["cwd"]) if inside(tmp_path, each)]:
        assert time.monotonic() < limit, at_work
        time.sleep(0.1)


def inside(folder: Path, process: psutil.Process) -> bool:
    return Path(process.info["cwd"] or "/").is_relative_to(folder)


def test_a_stage_that_fails_ends_the_study_with_what_it_said(tmp_path: Path) -> None:
    study = Study(tmp_path)
    (tmp_path / "pipelines" / "stage.py").write_text("raise SystemExit('no room for a scene')")
    done = study.start("[[1, 1], [1, 1]]")
    _, errors = done.communicate()
    assert done.returncode == 1
    assert "no room for a scene" in errors
    assert "Traceback" not in errors


def test_two_studies_at_once_and_a_folder_that_is_no_project_are_refused(tmp_path: Path) -> None:
    with (
        hold_study_lock(tmp_path / "work" / "study"),
        pytest.raises(ResourceError, match="running already"),
        hold_study_lock(tmp_path / "work" / "study"),
    ):
        raise AssertionError
    with pytest.raises(ConfigError, match="has no pipelines"):
        prepare_folder(tmp_path, tmp_path / "work" / "study")


def test_a_project_that_was_moved_studies_its_own_inputs(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    project = Study(tmp_path / "before").folder
    (project / "work" / "study").mkdir(parents=True)
    prepare_folder(project, project / "work" / "study")
    moved = project.rename(tmp_path / "after")
    prepare_folder(moved, moved / "work" / "study")
    assert (moved / "work" / "study" / "inputs").resolve() == (moved / "inputs").resolve()


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_stands_where_the_link_to_the_inputs_belongs_is_kept(what: str, tmp_path: Path) -> None:
    project = Study(tmp_path).folder
    folder = project / "work" / "study"
    folder.mkdir(parents=True)
    own = folder / "inputs" / "mine.txt" if what == "folder" else folder / "inputs"
    own.parent.mkdir(exist_ok=True)
    own.write_text("mine")
    with pytest.raises(ConfigError, match=rf"study/inputs' is a {what}.*Move it"):
        prepare_folder(project, folder)
    assert own.read_text() == "mine"


@pytest.mark.parametrize("name", ["dvc.yaml", ".dvc", ".dvc/config", ".dvc/config.local", "pipelines"])
def test_a_study_is_prepared_through_no_link(name: str, tmp_path: Path) -> None:
    project = Study(tmp_path).folder
    folder, mine = project / "work" / "study", tmp_path / "mine"
    (folder / name).parent.mkdir(parents=True)
    inside = name in (".dvc", "pipelines")
    mine.mkdir() if inside else mine.write_text("mine")
    (folder / name).symlink_to(mine)
    if name == "pipelines":
        prepare_folder(project, folder)
        assert (folder / name / "stage.py").is_file()
    else:
        with pytest.raises(ConfigError, match="caramel does not write through links"):
            prepare_folder(project, folder)
    assert not list(mine.iterdir()) if inside else mine.read_text() == "mine"
