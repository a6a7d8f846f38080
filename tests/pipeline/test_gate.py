"""A data set with a planted shortcut: `dvc repro` stops at the gate, says why, and runs nothing after it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from processes import fork_scripts
from project import Project

from caramel.io.safe_yaml import read_yaml
from caramel.schemas.columns import SUBTYPES

pytestmark = pytest.mark.slow

THINGS = ("dog", "cat", "bus", "car", "bench", "chair", "horse", "boat", "bird", "tree", "table", "bottle")
COLOURS = ("red", "green", "blue", "black", "white", "brown", "yellow", "grey")
RELATIONS = ("next to", "behind", "under", "above", "near")
PER_SUBTYPE = 600  # so many that adversarial refinement leaves some hundreds


def shortcut(negative: str) -> str:
    """Return the text with its nouns capitalised: language models neither see nor mend it, a glance does."""
    return re.sub(rf"\b({'|'.join(THINGS)})\b", lambda found: found[0].title(), negative)


def written(folder: Path) -> Path:
    """Write captions in SugarCrepe's format: fair ones, but for capital letters in the negatives."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for subtype in SUBTYPES:
        rows = {}
        for number in range(PER_SUBTYPE):
            a, b = rng.choice(THINGS, 2, replace=False)
            c, d = rng.choice(COLOURS, 2, replace=False)
            where = rng.choice(RELATIONS)
            rows[str(number)] = {
                "filename": f"{rng.integers(5 * PER_SUBTYPE):012d}.jpg",
                "caption": f"a {c} {a} {where} a {d} {b}",
                "negative_caption": shortcut(f"A {d} {a} {where} a {c} {b}."),
            }
        (folder / f"{subtype}.json").write_text(json.dumps(rows))
    return folder


def outputs_after(gate: str, project: Project) -> list[Path]:
    """Return the outputs of all stages after the gate."""
    stages = [*read_yaml(project.folder / "dvc.yaml", "")["stages"]]
    return project.list_outputs(*stages[stages.index(gate) + 1 :])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str]:
    """The project after `dvc repro`, and what it said."""
    folder = tmp_path_factory.mktemp("gate")
    files = written(folder / "captions")
    (folder / "p").mkdir()
    project = Project.create(folder / "p", lock=False)
    project.environment = fork_scripts(project.environment)
    project.run("caramel", "config", "use", "sugarcrepe", "--set", f"scenes.data_dir={files}")
    done = project.run("dvc", "repro", check=False)
    assert done.returncode != 0
    return project, done.stdout + done.stderr


def test_the_gate_says_what_gives_the_negatives_away_and_shows_rows(stopped: tuple[Project, str]) -> None:
    _, said = stopped
    assert "Error: Suite 'blind_captions'" in said
    assert "expect_blind_accuracy_to_be_at_most on caption, negative_caption: casing" in said
    assert re.search(r"casing.*: 100\.0 % \[\d+\.\d, 100\.0\] of \d+ rows", said)
    assert (
        len(re.findall(r"^  - negative_id='.*caption='A .*negative_caption='A .*$", said, re.MULTILINE)) == 5
    )
    assert re.search(r"… and \d+ more", said)
    assert "validate_captions.blind_tolerance" in said
    assert "Traceback" not in said
    assert "failed to reproduce 'validate_captions'" in said


def test_nothing_after_the_gate_has_run(stopped: tuple[Project, str]) -> None:
    project, said = stopped
    later = outputs_after("validate_captions", project)
    assert len(later) > 10
    assert [path for path in later if path.exists()] == []
    ran = re.findall(r"Running stage '(\w+)'", said)
    assert ran == ["scenes", "train_writer", "negatives", "scores", "refine", "validate_captions"]


def test_the_data_docs_show_what_failed(stopped: tuple[Project, str]) -> None:
    project, said = stopped
    page = project.folder / "work/data_docs/blind_captions/index.html"
    assert "work/data_docs/blind_captions/index.html" in said
    text = page.read_text(encoding="utf-8")
    assert "expect_blind_accuracy_to_be_at_most" in text
    assert "casing" in text


def test_with_the_shortcut_mended_the_same_gate_lets_it_pass(stopped: tuple[Project, str]) -> None:
    project, _ = stopped
    captions = project.folder.parent / "captions"
    for path in captions.iterdir():
        path.write_text(
            re.sub(rf"\b({'|'.join(t.title() for t in THINGS)})\b", lambda m: m[0].lower(), path.read_text())
        )
    project.run("dvc", "repro", "validate_captions")
    assert (project.folder / "data/validate_captions/summary.json").exists()
