"""Simulated annotators with known error rates and habits use the page: the estimates cover the truth, the bad are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import simulated_study as study
from simulated_annotators import Simulated, choose_at_random, choose_left, erring, tired


def test_error_rates_and_kappa_cover_the_truth_and_bad_annotators_are_found(
    browser: Any, tmp_path: Path
) -> None:
    rates = {"err-05": 0.05, "err-20": 0.2}
    people = [
        *(Simulated(name, erring(rate)) for name, rate in rates.items()),
        Simulated("tired", tired(erring(0.05), after=30)),
        Simulated("left", choose_left),
        Simulated("random", choose_at_random),
    ]
    path, items, truth = study.make_fits(tmp_path, 60, len(people))
    answers = study.judge_in_browser(browser, path, people, items, truth)
    assert len(answers) == 60 * len(people)
    assert study.list_lost(answers, people) == []
    estimates = [*study.estimate_errors(answers, truth, rates), *study.estimate_kappas(answers, rates)]
    assert all(estimate.covers for estimate in estimates), "\n".join(map(str, estimates))
    assert study.judge_annotators(answers, {"tired": "tired", "left": "position", "random": "random"}) == []
    assert study.judge_annotators(answers, {"tired": "tired", "left": "position"}) == [
        "random was taken for a bad annotator: random"
    ]
    assert "err-05 was not found" in study.judge_annotators(answers, {"tired": "tired", "err-05": "random"})


def test_the_human_baseline_covers_the_truth(browser: Any, tmp_path: Path) -> None:
    people = [Simulated(f"person-{number}", erring(0.1)) for number in range(3)]
    path, items, truth, instances, images = study.make_baseline(tmp_path, 18)
    answers = study.judge_in_browser(browser, path, people, items, truth, each=6)
    assert len(answers) == 18
    assert study.list_lost(answers, people) == []
    estimates = [*study.estimate_baseline(answers, instances, images, 0.1)]
    assert len(estimates) == 8
    assert all(estimate.covers for estimate in estimates), "\n".join(map(str, estimates))


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.75, 0.75), (0.1, 0.3)])
def test_the_true_kappa_is_that_of_many_simulated_items(rates: tuple[float, float]) -> None:
    import numpy as np

    from caramel.annotation.agreement.coefficients import compute_agreement

    draws = np.random.default_rng(0)
    right = np.where(np.arange(200_000) % 3 == 0, 1, 0)
    codes = np.column_stack(
        [
            np.where(draws.random(len(right)) < rate, (right + draws.integers(1, 4, len(right))) % 4, right)
            for rate in rates
        ]
    )
    few = study.Bootstrap(n_bootstrap=1, seed=0)
    kappa, alpha = (compute_agreement(codes, name, bootstrap=few).value for name in ("cohen", "krippendorff"))
    assert kappa == pytest.approx(study.compute_true_kappa(*rates), abs=0.01)
    assert alpha == pytest.approx(study.compute_true_alpha(rates), abs=0.01)
