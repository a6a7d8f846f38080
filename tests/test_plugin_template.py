"""The package of docs/plugin_template, installed by pip: each of its backends works by the public commands."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import run_command
from few_rows import few_rows
from filter_inputs import write_filter_inputs
from PIL import Image
from small_releases import put

from caramel.interfaces.method import Features
from caramel.schemas.candidates import CHOICES
from caramel.schemas.io import read_table
from caramel.sources.world.drawing import draw_scene, encode_png
from caramel.sources.world.scenes import Scene, SceneObject
from caramel.training.losses import clip_loss, distinct_image_mask

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "docs" / "plugin_template"
COLORS = ("red", "blue", "green", "black")
PACKAGE = {"package": "caramel-pairs", "version": "1.0"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the template's package by pip into a folder; return the environment in which it is found."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(TEMPLATE, folder / "source")
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([sys.executable, "-m", "pip", *words, folder / "site", source], check=True)
    return {"PYTHONPATH": str(folder / "site")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a small release of the template's benchmark, each image of which is of one color."""
    rows = [
        {
            "image": f"{n % 8}.png",
            "subset": "swap",
            "caption": f"A {COLORS[n % 4]} car beside cup number {n}.",
            "negative_caption": f"Cup number {n} beside a {COLORS[(n + 1) % 4]} car.",
        }
        for n in range(24)
    ]
    put(tmp_path / "data/my_pairs/pairs.csv", rows)
    (tmp_path / "data/my_pairs/images").mkdir()
    for n in range(8):
        Image.new("RGB", (32, 32 + n), COLORS[n % 4]).save(tmp_path / f"data/my_pairs/images/{n}.png")
    return tmp_path


def set_params(folder: Path, sets: dict[str, str], environment: dict[str, str]) -> None:
    """Write the params of a project by `caramel config use`."""
    sets = {"run.executor": "inline", "evaluate.zero_shot": "data", **sets}
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    done = run_command(folder, "config", "use", "smoke", *words, environment=environment)
    assert done.returncode == 0, done.stderr


def run_stage(stage: str, folder: Path, environment: dict[str, str]) -> None:
    """Run a stage's script in a project, as `dvc repro` does."""
    done = subprocess.run(
        [sys.executable, ROOT / "pipelines" / f"{stage}.py"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_eval_scores_the_benchmark_with_the_family_and_the_scorer(
    installed: dict[str, str], project: Path
) -> None:
    models = ["--model", f"colors:{','.join(COLORS)}", "--model", "blind:first_word"]
    words = [*models, "--benchmark", "my_pairs", "--data", "data", "--n-bootstrap", "100", "--json"]
    done = run_command(project, "eval", *words, "--out", "out", environment=installed)
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    assert {(row["model"], row["value"]) for row in metrics if row["subset"] == "all"} == {
        ("colors:red,blue,green,black", 1.0),
        ("blind:first_word", 1.0),
    }
    used = json.loads((project / "out/plugins.json").read_text())
    assert [len(entry.pop("code")) for entry in used] == [64] * 3
    assert used == [
        {"type": "benchmark", "name": "my_pairs", **PACKAGE},
        {"type": "model", "name": "colors", **PACKAGE},
        {"type": "scorer", "name": "first_word", **PACKAGE},
    ]


def test_audit_reads_the_benchmark_and_uses_the_scorer(installed: dict[str, str], project: Path) -> None:
    words = ["data/my_pairs", "--format", "my_pairs", "--scorer", "first_word", "--scorer", "length"]
    done = run_command(project, "audit", *words, "--out", "audit", environment=installed)
    assert done.returncode == 0, done.stderr
    audit = json.loads((project / "audit/audit.json").read_text())
    assert audit["rows"] == 24
    assert audit["scorers"]["first_word"]["overall"]["micro"] == 1.0
    assert [(entry["type"], entry["name"]) for entry in audit["plugins"]] == [
        ("scorer", "first_word"),
        ("benchmark", "my_pairs"),
    ]


def test_the_family_passes_every_made_instance_that_suits_a_dual_encoder(
    installed: dict[str, str], tmp_path: Path
) -> None:
    done = run_command(tmp_path, "eval", "--model", "colors:red,blue", "--mock", environment=installed)
    assert done.returncode == 0, done.stdout
    assert set(re.findall(r"  (passed|failed|unsuitable)  ", done.stdout)) == {"passed"}


def test_a_target_that_the_family_does_not_know_is_its_own_error(
    installed: dict[str, str], project: Path
) -> None:
    words = ["--model", "colors:red,bleu", "--benchmark", "my_pairs", "--data", "data", "--out", "out"]
    done = run_command(project, "eval", *words, environment=installed)
    assert done.returncode == 1
    assert "'bleu' is not a color of CSS" in done.stderr


def test_the_stage_finetune_trains_a_variant_by_the_method(
    installed: dict[str, str], drawn_world: Any, world: Any, clip_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(clip_folder, tmp_path / "data" / "base")
    shutil.copytree(ROOT / "params", tmp_path / "params")
    (tmp_path / "data" / "assemble").mkdir()
    rows = Path(few_rows(drawn_world, world, tmp_path / "data" / "assemble"))
    rows.rename(rows.with_name("training.parquet"))
    shutil.copytree(
        tmp_path / "data" / "assemble", tmp_path / "data" / "scenes"
    )  # only whether there are images
    short = {"steps": "2", "batch_size": "8", "warmup_steps": "1", "checkpoint_every": "2", "seeds": "[3]"}
    sets = {f"finetune.{key}": value for key, value in short.items()}
    sets |= {"finetune.variants": "[margin]", "finetune.overrides": "{margin: {weights: {hinge: 0.5}}}"}
    set_params(tmp_path, sets | {"report.primary_comparison.variant": "margin"}, installed)
    run_stage("finetune", tmp_path, installed)
    assert json.loads((tmp_path / "data/finetune/margin-3/caramel.json").read_text())["variant"] == "margin"


def test_the_stage_filter_images_decides_by_the_judge(
    installed: dict[str, str], world: Any, files: dict[str, bytes], clip_folder: Path, tmp_path: Path
) -> None:
    write_filter_inputs(world, files, clip_folder, tmp_path)
    sets = {"judge": "color_words", "second_judge": "null", "faithfulness_threshold": "0.6"}
    set_params(tmp_path, {f"filter_images.{key}": value for key, value in sets.items()}, installed)
    run_stage("filter_images", tmp_path, installed)
    choices = read_table(CHOICES, tmp_path / "data/filter_images/choices.parquet")
    assert 0 < choices["chosen_by"].notna().sum() < len(choices)
    assert (choices.dropna(subset="chosen_by")["faithful"] >= 0.6).all()


def test_commands_list_the_backends_and_their_package(installed: dict[str, str], tmp_path: Path) -> None:
    listed = run_command(tmp_path, "benchmarks", environment=installed).stdout
    assert listed.splitlines()[-1].split() == ["my_pairs", "of", "package", "caramel-pairs", "1.0"]
    assert "first_word" in run_command(tmp_path, "audit", "--help", environment=installed).stdout
    help_text = run_command(tmp_path, "eval", "--help", environment=installed).stdout
    assert "models of caramel-pairs 1.0" in help_text
    layout = run_command(tmp_path, "benchmarks", "my_pairs", environment=installed).stdout
    assert "my_pairs/pairs.csv" in layout


def test_the_methods_loss_is_the_hinge_of_the_available_negatives_beside_infonce(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(TEMPLATE / "src")
    from caramel_pairs.method import MARGIN

    images, texts = torch.eye(2, 3), torch.eye(2, 3)
    negatives = torch.tensor([[[0.9, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 0.3, 0.0], [0.0, 1.0, 0.0]]])
    mask = torch.tensor([[True, False], [True, False]])
    step = Features(
        images, texts, torch.arange(2), torch.tensor(5.0), negative_texts=negatives, negative_mask=mask
    )
    contrastive = clip_loss(images, texts, torch.tensor(5.0), distinct_image_mask(torch.arange(2)))
    # Gaps of 0.1 and 0.7 under a margin of 0.2.
    assert MARGIN.loss(step, 0, margin=0.2, hinge=2.0).item() == pytest.approx(
        contrastive.item() + 2 * 0.1 / 2
    )


def test_the_judge_scores_the_share_of_the_captions_colors_that_an_image_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(TEMPLATE / "src")
    from caramel_pairs.judge import build_color_judge

    things = SceneObject("car", "red", "large", 0, 0), SceneObject("tree", "green", "large", 1, 1)
    drawn = encode_png(draw_scene(Scene(things, "white"), np.random.default_rng(0)))
    captions = ["A red car.", "A red car and a blue tree.", "A blue car.", "A car."]
    assert build_color_judge().score_match([drawn] * 4, captions).tolist() == [1.0, 0.5, 0.0, 1.0]
