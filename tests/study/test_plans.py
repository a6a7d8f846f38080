"""When a comparison is confirmatory: what the file of a plan holds, and what a run has in common with earlier ones."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from caramel.config import Contrast
from caramel.errors import ConfigError
from caramel.profile import read_profile
from caramel.study.cells import cells, seeds
from caramel.study.plans import check_registration, hash_plan, read_plan
from caramel.study.study import check_plan

ROOT = Path(__file__).parents[2]
CONTRAST = Contrast(variant="trohn_img", against="base", metric="group", subset="without_add")
TEXT = """\
date: "2026-11-22"
comparison: {variant: trohn_img, against: base, metric: group, subset: without_add}
rule: p < 0.05
used_seeds: [1, 2]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "claim.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_a_later_run_on_new_scenes_of_the_comparison_that_the_plan_names_is_confirmatory(plan: Path) -> None:
    found = check_registration(plan, CONTRAST, [1_000_001, 2_000_001], date(2026, 11, 23))
    assert found.confirmatory
    assert hash_plan(plan)[:12] in found.reason
    assert "2026-11-22" in found.reason


@pytest.mark.parametrize(
    ("seeds", "began", "why"),
    [
        ([3, 2], date(2026, 11, 23), "scenes.seed 2"),
        ([3], date(2026, 11, 22), "no later than the plan"),
        ([3], date(2026, 11, 1), "no later than the plan"),
        ([3], None, "nothing here says when the run began"),
    ],
)
def test_known_scenes_an_early_run_and_one_without_a_date_are_exploratory(
    plan: Path, seeds: list[int], began: date | None, why: str
) -> None:
    found = check_registration(plan, CONTRAST, seeds, began)
    assert not found.confirmatory
    assert found.reason.startswith("Exploratory: ")
    assert why in found.reason


def test_another_comparison_and_no_plan_are_exploratory(plan: Path) -> None:
    other = CONTRAST.model_copy(update={"metric": "i2t"})
    for path, contrast in ((plan, other), (None, CONTRAST)):
        assert not check_registration(path, contrast, [3], date(2026, 11, 23)).confirmatory


def test_an_edit_of_the_plan_changes_the_hash_that_is_shown(plan: Path) -> None:
    before = hash_plan(plan)
    plan.write_text(TEXT.replace("0.05", "0.5"), encoding="utf-8")
    assert hash_plan(plan) != before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TEXT.replace("2026-11-22", "yesterday"), "date"),
        (TEXT.replace("rule: p < 0.05\n", ""), "rule"),
        (TEXT.replace("group", "beauty"), "comparison.metric"),
        (TEXT + "more: 1\n", "more"),
        ("- 1\n", "is not a plan"),
        ("", "is not a plan"),
    ],
)
def test_a_file_that_is_no_plan_is_an_error_that_names_the_entry(plan: Path, text: str, problem: str) -> None:
    plan.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=problem):
        read_plan(plan)


def test_a_plan_that_is_not_there_is_an_error_that_names_the_key() -> None:
    with pytest.raises(ConfigError, match=r"report\.plan"):
        read_plan(Path("nowhere.yaml"))


# ``scenes.seed`` of the study in docs/results.md, whose figures are published.
STUDIED = {1, 1_000_001, 2_000_001, 3_000_001}


def test_a_study_draws_no_scenes_whose_figures_an_earlier_study_has_published() -> None:
    _, config = read_profile("study", {}, ROOT)
    drawn = {seeds(config, cell)["scenes.seed"] for cell in cells(config.study.draws)}
    assert len(drawn) == len(config.study.draws)
    assert not drawn & STUDIED
    assert config.report.plan is not None
    assert {*read_plan(ROOT / config.report.plan).used_seeds} >= STUDIED


def test_the_default_run_repeats_scenes_whose_figures_were_known_and_a_study_does_not() -> None:
    _, default = read_profile("default", {}, ROOT)
    _, config = read_profile("study", {}, ROOT)
    assert config.report.plan is not None
    plan_path = ROOT / config.report.plan
    assert read_plan(plan_path).comparison == config.report.contrast
    later = date(2026, 12, 1)
    assert not check_registration(
        plan_path, config.report.contrast, [default.scenes.seed], later
    ).confirmatory
    assert check_plan(config, ROOT, later).confirmatory
