"""`dvc repro pipelines/crepe/dvc.yaml` makes CREPE's sets of small files in the published forms."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml
from crepe_releases import NOUNS, write_crepe_inputs
from graph import missing_params
from PIL import Image
from processes import fork_scripts
from project import Project
from test_graph import EXEMPT, SECTIONS

from caramel.benchmarks.crepe_files import read_regions
from caramel.registry import BENCHMARKS
from caramel.runtime.mlflow.store import open_client

ROOT = Path(__file__).parents[2]
GRAPH = yaml.safe_load((ROOT / "pipelines/crepe/dvc.yaml").read_text())["stages"]


@pytest.mark.parametrize("stage", GRAPH)
def test_a_stage_of_crepe_says_what_it_reads(stage: str) -> None:
    script = f"pipelines/crepe/{stage}.py"
    assert missing_params(ROOT / script, GRAPH[stage]["params"], SECTIONS, exempt=EXEMPT | FREE) == []
    assert GRAPH[stage]["cmd"] == f"python {script}"
    assert {script, f"code/{stage}.txt"} <= set(GRAPH[stage]["deps"])


# They change no file: how many requests are sent at once, or at most.
FREE = frozenset({"crepe.max_connections", "crepe.max_requests"})


@pytest.mark.slow
def test_the_graph_makes_both_sets_with_a_gate_and_runs_and_nothing_is_made_twice(
    clip_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "p").mkdir()
    project = Project.create(tmp_path / "p", lock=False)
    project.environment = fork_scripts(project.environment)
    graphs, corpus = write_crepe_inputs(tmp_path / "inputs")
    (tmp_path / "images/VG_100K").mkdir(parents=True)
    for number in range(1, len(NOUNS) + 1):
        Image.new("RGB", (800, 800), (40 * number, 90, 10)).save(tmp_path / f"images/VG_100K/{number}.jpg")
    sets = {
        "graphs": graphs,
        "corpus": corpus,
        "models": f"[tiny=open_clip:{clip_folder}]",
        "images": tmp_path / "images",
        "words": "lists",
        "sensible": "null",
        "entailment": "null",
        "min_examples": 3,
        "per_complexity": 3,
    }
    options = [word for key, value in sets.items() for word in ("--set", f"crepe.{key}={value}")]
    project.run("caramel", "config", "use", "crepe", *options)
    project.run("dvc", "repro", "pipelines/crepe/dvc.yaml")
    data = project.folder / "data"
    rows = read_regions(
        data / "crepe_systematicity/syst_vg_hard_negs_seen_compounds_in_cc12m.csv",
        {"comp": "valid_hard_negs_comp"},
    ).regions
    assert [row.caption for row in rows] == ["a blue dog"]
    for name in ("crepe_systematicity", "crepe_productivity", "crepe_retrieval"):
        task = BENCHMARKS[name].load_rows(data / name, tmp_path)
        assert len(task.rows) > 0
        assert task.rejects == ()
    subsets = {subset for row in task.rows["subsets"] for subset in row}
    assert {"i2t/unseen_atoms_in_cc12m", "t2i/n7"} <= subsets
    summary = json.loads((data / "validate_crepe/summary.json").read_text())
    assert set(summary) == {"crepe_examples of systematicity", "crepe_examples of productivity"}
    assert (project.folder / "work/data_docs/productivity/crepe_examples/index.html").is_file()
    store = open_client(f"sqlite:///{project.folder / 'mlruns/mlflow.db'}")
    runs = {run.info.run_name: run for run in store.search_runs(["1"])}
    assert runs["crepe_systematicity"].data.metrics["examples/sc"] == 1
    assert runs["crepe_productivity"].data.metrics["examples/atom 7 atoms"] > 0
    models = data / "crepe_models"
    metrics = pd.read_parquet(models / "metrics.parquet")
    assert set(metrics["benchmark"]) == {"crepe_systematicity", "crepe_productivity", "crepe_retrieval"}
    drawn = {path.stem for path in (models / "figures").iterdir()}
    assert drawn >= {"figure_4", "figure_5", "figure_6", "figure_12_cc12m", "table_8_cc12m"}
    not_made = " ".join(json.loads((models / "not_made.json").read_text()))
    assert "figure_7: fewer than 3 models have an ImageNet accuracy" in not_made
    assert json.loads((models / "summary.json").read_text())["crepe_recalls"]["rows"] == len(metrics)
    assert {f"evaluate tiny on {name}" for name in set(metrics["benchmark"])} <= set(runs)
    again = project.run("dvc", "repro", "pipelines/crepe/dvc.yaml")
    assert again.stdout.count("didn't change, skipping") == len(GRAPH)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "sets", "said"),
    [
        ("crepe_index", {"corpus": "{inputs}/none.tsv"}, "none.tsv' must be a file of captions"),
        ("crepe_index", {"corpus": "{inputs}/empty.tsv"}, "contains no captions in column '2'"),
        ("crepe_index", {"graphs": "{inputs}/none"}, "image_data.json"),
        ("crepe_productivity", {"min_area": "1000000"}, "No caption with hard negatives is left"),
        ("crepe_productivity", {"words": "wordnet:none"}, "'none' is no folder"),
        ("crepe_productivity", {"entailment": "nli"}, "'nli' is no folder"),
        ("crepe_productivity", {"writer": "chat:m@http://127.0.0.1:1"}, "crepe.entailment"),
    ],
)
def test_bad_input_is_one_error(stage: str, sets: dict[str, str], said: str, crepe: Project) -> None:
    inputs = crepe.folder.parent / "inputs"
    given = {
        "graphs": "{inputs}/visual_genome",
        "corpus": "{inputs}/corpus.tsv",
        "words": "lists",
        **UNSET,
        **sets,
    }
    options = [
        word
        for key, value in given.items()
        for word in ("--set", f"crepe.{key}={value.format(inputs=inputs)}")
    ]
    done = crepe.run("caramel", "config", "use", "crepe", *options, check=False)
    if done.returncode == 0:
        done = crepe.run("python", f"pipelines/crepe/{stage}.py", check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("Error") == 1


@pytest.mark.slow
def test_without_models_the_last_stage_says_so_and_writes_nothing_else(crepe: Project) -> None:
    crepe.run("caramel", "config", "use", "crepe", "--set", "crepe.models=[]")
    crepe.run("python", "pipelines/crepe/crepe_models.py")
    out = crepe.folder / "data/crepe_models"
    assert [path.name for path in out.iterdir()] == ["SKIPPED.txt"]
    assert (out / "SKIPPED.txt").read_text() == "crepe.models names no model\n"


UNSET = {"sensible": "null", "entailment": "null"}


@pytest.fixture(scope="module")
def crepe(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project beside the inputs."""
    folder = tmp_path_factory.mktemp("crepe")
    write_crepe_inputs(folder / "inputs")
    (folder / "p").mkdir()
    return Project.create(folder / "p", lock=False)
