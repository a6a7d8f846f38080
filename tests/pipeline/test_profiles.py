"""Real input: SugarCrepe-format captions, and images with captions of the user's own."""

import csv
import json
import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from paper_inputs import write_photograph
from processes import checked, get_python
from project import Project
from real_models import SMOLLM2, WORDNET

from caramel.runtime.fork_server import PRELOADED
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.evaluation import METRICS
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.llm import REPLIES
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS

pytestmark = pytest.mark.slow

SMALL = {
    "run.executor": "inline",  # Ray's part is that of the smoke runs, whatever the source
    "validate_captions.min_pairs": "5",
    "train_generator.steps": "4",
    "train_generator.batch_size": "8",
    "train_generator.hidden_size": "64",
    "train_generator.num_layers": "1",
    "train_generator.warmup_steps": "1",
    "pretrain.steps": "4",
    "pretrain.batch_size": "8",
    "pretrain.warmup_steps": "1",
    "synthesize.candidates": "2",
    "synthesize.per_subtype": "{train: 2, val: 2, test: 2}",
    "synthesize.grid": "{guidance: [2.0], steps: [2]}",
    "synthesize.grid_captions": "4",
    "scenes.val_test_frac": "[0.25, 0.35]",
    # Models trained for seconds judge at random: this run is about the way, not the outcome.
    "filter_images.faithfulness_threshold": "0.0",
    "filter_images.keep_ambiguous": "[replace, swap, add]",
    "validate_captions.blind_tolerance": "0.5",
    "image_scores.folds": "2",
    "validate_benchmark.blind_tolerance": "0.5",
    "validate_benchmark.max_subtype_share": "1.0",
    "finetune.seeds": "[11]",
    "finetune.steps": "2",
    "finetune.batch_size": "4",
    "finetune.warmup_steps": "0",
    "evaluate.n_bootstrap": "100",
}


def new_project(folder: Path) -> Project:
    folder.mkdir()
    return Project.create(folder, lock=False)


def switch(project: Project, profile: str, **sets: str) -> None:
    options = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    project.run("caramel", "config", "use", profile, *options)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty photographs with a captions table."""
    folder, rng = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    rows = []
    for number in range(30):
        colour, other = rng.choice(["red", "green", "blue", "white", "black"], 2, replace=False)
        thing, beside = rng.choice(["car", "bus", "dog", "cat", "chair", "bench"], 2, replace=False)
        write_photograph(folder / f"{number:03d}.jpg", rng, str(colour))
        rows.append((f"{number:03d}.jpg", f"A {colour} {thing} next to a {other} {beside}"))
    with (folder / "captions.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("filename", "caption"), *rows])
    return folder


def test_stages_are_forked_from_a_process_with_all_large_packages_but_ray(tmp_path) -> None:
    """Ray reads at its import what caramel sets before it, such as that it listens on the loopback interface alone."""
    names = [*PRELOADED, "ray"]
    (tmp_path / "script.py").write_text(
        f"import sys; print(*(name for name in {names} if name in sys.modules))"
    )
    imported, end = "", time.monotonic() + 120
    while "open_clip" not in imported and time.monotonic() < end:  # the last one, after seconds
        command = [get_python(), str(tmp_path / "script.py")]
        imported = checked(subprocess.run(command, capture_output=True, text=True, check=False)).stdout
    assert imported.split() == [*PRELOADED]


def test_images_of_ones_own_go_through_all_stages(photographs, tmp_path) -> None:
    project = new_project(tmp_path / "p")
    switch(project, "files", **{"scenes.data_dir": str(photographs)}, **SMALL)
    project.warm_all_stages()
    images = read_table(IMAGES, project.folder / "data/scenes/images.parquet")
    assert len(images) == 30
    instances = read_table(INSTANCES, project.folder / "data/assemble/instances.parquet")
    assert len(instances) > 0
    metrics = read_table(METRICS, project.folder / "data/evaluate/metrics.parquet")
    assert set(metrics["model"]) >= {"base", "trohn_img-11"}
    assert (project.folder / "data/report/report.html").stat().st_size > 100_000


def test_an_image_that_does_not_decode_stops_the_first_stage_by_name(photographs, tmp_path) -> None:
    project = new_project(tmp_path / "p")
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in photographs.iterdir():
        data = path.read_bytes()
        (broken / path.name).write_bytes(data[:300] if path.name in ("003.jpg", "007.jpg") else data)
    switch(project, "files", **{"scenes.data_dir": str(broken)}, **SMALL)
    done = project.run("dvc", "repro", check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "003.jpg" in said
    assert "007.jpg" in said
    assert not (project.folder / "data" / "negatives").exists()


def sugarcrepe_like(folder: Path) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    things, colours = ["dog", "cat", "bus", "car", "bench", "chair"], ["red", "green", "blue", "black"]
    for subtype in SUBTYPES:
        rows = {}
        for number in range(60):
            a, b = rng.choice(things, 2, replace=False)
            c, d = rng.choice(colours, 2, replace=False)
            rows[str(number)] = {
                "filename": f"{rng.integers(40):012d}.jpg",
                "caption": f"a {c} {a} next to a {d} {b}",
                "negative_caption": f"A {d} {a} next to a {c} {b}.",
            }
        (folder / f"{subtype}.json").write_text(json.dumps(rows))
    return folder


def test_sugarcrepe_captions_go_through_the_text_stages_and_the_report(tmp_path) -> None:
    real = os.environ.get("CARAMEL_DATA")
    files = Path(real, "sugarcrepe_unrefined") if real else sugarcrepe_like(tmp_path / "captions")
    project = new_project(tmp_path / "p")
    switch(project, "sugarcrepe", **{"scenes.data_dir": str(files)})
    project.warm_all_stages()
    pairs = read_table(PAIRS, project.folder / "data/scenes/pairs.parquet")
    assert len(pairs) >= (17_000 if real else 300)
    skipped = json.loads((project.folder / "data/synthesize/settings.json").read_text())
    assert "no images" in skipped["skipped"]
    page = (project.folder / "data/report/report.html").read_text()
    assert "has no images" in page


def test_captions_alone_go_through_the_text_stages_and_are_pinned_and_released(tmp_path) -> None:
    rng = np.random.default_rng(0)
    animals, things = ["dog", "cat", "horse"], ["car", "bench", "bus", "chair"]
    lines = [
        f"A {rng.choice(['black', 'white', 'brown'])} {rng.choice(animals)} sitting in front of a "
        f"{rng.choice(['red', 'green', 'blue'])} {rng.choice(things)} at house {number}."
        for number in range(150)
    ]
    (tmp_path / "captions").mkdir()
    (tmp_path / "captions" / "captions.txt").write_text("\n".join([*lines, "", lines[0]]), encoding="utf-8")
    project = new_project(tmp_path / "p")
    switch(project, "captions", **{**SMALL, "scenes.data_dir": str(tmp_path / "captions")})
    project.warm_all_stages()
    project.run("dvc", "commit", "-f", "-q", "dvc.yaml")  # without CREPE's graph, which did not run
    rejects = read_table(REJECTS, project.folder / "data/scenes/rejects.parquet")
    assert rejects["id"].tolist() == ["line-151", "line-152"]
    project.run("caramel", "pin", "v1")
    project.run("caramel", "release", "v1", "--out", "release", "--no-audit")
    released = project.folder / "release"
    assert (released / "data/captions/test-00000-of-00001.parquet").is_file()
    assert list((released / "formats/test/sugarcrepe").glob("*.json"))
    assert "has no images" in (project.folder / "data/report/report.html").read_text()


@pytest.mark.skipif(
    not SMOLLM2.exists() or not WORDNET.is_dir(),
    reason="SmolLM2 or WordNet is missing: run `make dev`, apt-get install wordnet-base",
)
def test_a_real_model_writes_negatives_of_real_captions_in_profile_real(tmp_path) -> None:
    captions = ["A black dog is sleeping on a red couch.", "A cake sits on a table."]
    (tmp_path / "captions").mkdir()
    (tmp_path / "captions" / "captions.txt").write_text("\n".join(captions), encoding="utf-8")
    project = new_project(tmp_path / "p")
    sets = {"negatives.language_model.target": f"local:{SMOLLM2}", "negatives.language_model.subtypes": 3}
    switch(project, "real", **{"scenes.data_dir": str(tmp_path / "captions"), **sets})
    project.warm_stages("scenes", "train_writer", "negatives")
    data = project.folder / "data/negatives"
    replies, negatives = (
        read_table(REPLIES, data / "replies.parquet"),
        read_table(NEGATIVES, data / "negatives.parquet"),
    )
    assert len(replies) >= len(captions)
    assert replies["text"].notna().all()
    rejects = read_table(REJECTS, data / "rejects.parquet")
    kinds = rejects["id"].str.rpartition(":")[2]
    assert len(negatives) + (kinds != "paraphrase").sum() == 3 * len(captions)
    assert not {*negatives["negative_caption"]} & {*captions}


def test_broken_input_is_one_clear_message_and_the_next_run_goes_on(tmp_path) -> None:
    files = sugarcrepe_like(tmp_path / "captions")
    good = (files / "swap_obj.json").read_text()
    (files / "swap_obj.json").write_text(good[:500])
    project = new_project(tmp_path / "p")
    switch(project, "sugarcrepe", **{"scenes.data_dir": str(files)})
    done = project.run("dvc", "repro", "negatives", check=False)
    assert done.returncode != 0
    assert "swap_obj.json" in done.stderr
    assert "Traceback" not in done.stderr
    (files / "swap_obj.json").write_text(good)
    project.run("dvc", "repro", "negatives")
