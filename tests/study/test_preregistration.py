"""When a comparison is confirmatory: what the file of a plan holds, and what a run has in common with earlier ones."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from caramel.config.profiles import read_profile
from caramel.config.sections.results import PrimaryComparison
from caramel.errors import ConfigError
from caramel.study.cells import Cell, compute_seeds
from caramel.study.preregistration import RunFacts, check_registration, hash_plan, read_plan
from caramel.study.study import check_plan

ROOT = Path(__file__).parents[2]
CONTRAST = PrimaryComparison(variant="trohn_img", against="base", metric="group", subset="without_add")
TEXT = """\
date: "2026-11-22 14:30"
comparison: {variant: trohn_img, against: base, metric: group, subset: without_add}
rule: p < 0.05
used_seeds: [1, 2]
"""
FIXED = TEXT + "draws: [3, 4]\ncode: abcdef0123456789\n"
LATER = datetime(2026, 11, 22, 14, 31, tzinfo=UTC)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "claim.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_a_later_run_on_new_scenes_of_the_comparison_that_the_plan_names_is_confirmatory(plan: Path) -> None:
    found = check_registration(plan, CONTRAST, RunFacts([1_000_001, 2_000_001], LATER))
    assert found.confirmatory
    assert hash_plan(plan)[:12] in found.reason
    assert "2026-11-22 14:30 UTC" in found.reason


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        (RunFacts([3, 2], LATER), "scenes.seed 2"),
        (RunFacts([3], datetime(2026, 11, 22, 14, 30, tzinfo=UTC)), "no later than the plan"),
        (RunFacts([3], datetime(2026, 11, 1, tzinfo=UTC)), "no later than the plan"),
        (RunFacts([3], None), "the start time of the run is unknown"),
    ],
)
def test_known_scenes_an_early_run_and_one_without_a_time_are_exploratory(
    plan: Path, ran: RunFacts, why: str
) -> None:
    found = check_registration(plan, CONTRAST, ran)
    assert not found.confirmatory
    assert found.reason.startswith("Exploratory: ")
    assert why in found.reason


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        (RunFacts([3, 4], LATER, "abcdef0123456789"), ""),
        (RunFacts([4, 3], LATER, "abcdef0123456789"), ""),
        (RunFacts([3], LATER, "abcdef0123456789"), "other scenes (scenes.seed 3, 4)"),
        (RunFacts([3, 4, 5], LATER, "abcdef0123456789"), "other scenes"),
        (RunFacts([3, 4], LATER, "0123456789abcdef"), "others (0123456789ab…)"),
        (RunFacts([3, 4], LATER), "not known"),
    ],
)
def test_a_plan_that_fixes_draws_and_code_takes_these_and_no_others(
    plan: Path, ran: RunFacts, why: str
) -> None:
    plan.write_text(FIXED, encoding="utf-8")
    found = check_registration(plan, CONTRAST, ran)
    assert found.confirmatory is not bool(why)
    assert why in found.reason


def test_a_plan_of_a_day_is_fixed_when_the_day_ends(plan: Path) -> None:
    plan.write_text(TEXT.replace(" 14:30", ""), encoding="utf-8")
    assert not check_registration(plan, CONTRAST, RunFacts([3], LATER)).confirmatory
    assert check_registration(plan, CONTRAST, RunFacts([3], datetime(2026, 11, 23, tzinfo=UTC))).confirmatory


def test_times_of_a_plan_are_utc_unless_they_say_otherwise(plan: Path) -> None:
    for text, hour in (("2026-11-22 14:30", 14), ("2026-11-22 14:30+02:00", 12), ("2026-11-22T14:30Z", 14)):
        plan.write_text(TEXT.replace("2026-11-22 14:30", text), encoding="utf-8")
        assert read_plan(plan).date == datetime(2026, 11, 22, hour, 30, tzinfo=UTC)


def test_another_comparison_and_no_plan_are_exploratory(plan: Path) -> None:
    other = CONTRAST.model_copy(update={"metric": "i2t"})
    for path, contrast in ((plan, other), (None, CONTRAST)):
        assert not check_registration(path, contrast, RunFacts([3], LATER)).confirmatory


def test_an_edit_of_the_plan_changes_the_hash_that_is_shown(plan: Path) -> None:
    before = hash_plan(plan)
    plan.write_text(TEXT.replace("0.05", "0.5"), encoding="utf-8")
    assert hash_plan(plan) != before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TEXT.replace("2026-11-22 14:30", "yesterday"), "date"),
        (TEXT.replace("rule: p < 0.05\n", ""), "rule"),
        (TEXT.replace("group", "beauty"), "comparison.metric"),
        (TEXT + "more: 1\n", "more"),
        (TEXT + "draws: []\n", "draws"),
        (TEXT + "draws: [one]\n", "draws"),
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


# ``scenes.seed`` of runs whose figures of this comparison, or of one like it, are published.
STUDIED = {1, 1_000_001, 2_000_001, 3_000_001}


def test_the_plan_of_the_project_names_the_draws_of_its_study_and_none_that_was_known() -> None:
    _, config = read_profile("study", {}, ROOT)
    drawn = [
        compute_seeds(config, Cell(draw, 0, 0))["scenes.seed"] for draw in range(len(config.study.draws))
    ]
    assert config.report.plan is not None
    plan = read_plan(ROOT / config.report.plan)
    assert plan.comparison == config.report.primary_comparison
    assert plan.draws is not None
    assert [*plan.draws] == drawn
    assert len({*drawn}) == len(drawn) >= 8
    assert not {*drawn} & STUDIED
    assert {*plan.used_seeds} >= STUDIED


def test_the_default_run_repeats_scenes_whose_figures_were_known_and_a_study_does_not() -> None:
    _, default = read_profile("default", {}, ROOT)
    _, config = read_profile("study", {}, ROOT)
    assert default.report.plan is not None
    later = datetime(2027, 12, 1, tzinfo=UTC)
    found = check_registration(
        ROOT / default.report.plan, default.report.primary_comparison, RunFacts([default.scenes.seed], later)
    )
    assert "had been published before" in found.reason
    found = check_plan(config, ROOT, later)
    # Sources may have changed since the study that the plan was for; all else is as it says.
    assert found.confirmatory or "fixes sources and settings" in found.reason
