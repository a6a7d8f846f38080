"""A small version of `bench/annotation_coverage.py`: intervals hold the truth, bad annotators are found."""

import numpy as np
import pytest
from annotated import load_simulation

SIMULATION = load_simulation()
TRIALS = 200  # a share of 0.95 has a standard error of 0.015


@pytest.mark.parametrize("design", SIMULATION.DESIGNS[:2], ids=["two annotators", "three annotators"])
def test_intervals_of_kappa_and_alpha_hold_the_truth(design) -> None:
    for name, share in SIMULATION.measure_coefficients(design, TRIALS, 0).items():
        assert 0.90 <= share <= 0.985, (name, share)


@pytest.mark.parametrize(("overlap", "spread"), [(1, 0.5), (2, 0.5)])
def test_the_interval_of_a_human_baseline_holds_the_accuracy_of_all_people(
    overlap: int, spread: float
) -> None:
    assert 0.90 <= SIMULATION.measure_baseline(20, 25, overlap, spread, TRIALS, 0) <= 0.985


def test_bad_annotators_are_found_and_good_ones_are_not_flagged() -> None:
    power, alarms = SIMULATION.measure_flags(150, 0.9, 4, 0)
    assert min(power.values()) >= 0.75, power
    assert max(alarms.values()) <= 0.1, alarms


def test_flags_say_which_habit_and_skipped_items_count() -> None:
    answers = SIMULATION.build_answers(["good", "good", "good", "left"], 120, 0.9, np.random.default_rng(1))
    last = answers.index[answers["annotator"] == "good-0"][0]
    answers.loc[last, ["answer", "skipped"]] = [None, "unclear"]
    described = SIMULATION.describe_annotators(answers, "fits", bootstrap=SIMULATION.Bootstrap(200, 0))
    rows = described.set_index("annotator")
    assert rows.loc["good-0", ["answered", "skipped"]].tolist() == [119, 1]
    assert rows.loc["left-3", "first_share"] == 1.0
    assert {"position", "random"} <= set(rows.loc["left-3", "flags"])
    assert 0.3 < rows.loc["good-1", "first_share"] < 0.7
    assert rows.loc["good-1", "gold_items"] == 12
    assert (
        rows.loc["good-1", "gold_low"]
        < rows.loc["good-1", "gold_accuracy"]
        <= rows.loc["good-1", "gold_high"]
    )
