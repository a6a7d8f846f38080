"""Power against simulated studies, and what each kind of luck asks for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from caramel.study.components import Component
from caramel.study.power import (
    Design,
    compute_detectable_effect,
    compute_power,
    compute_required_sizes,
    variance_of_mean,
)

NAMES = ("instances", "scenes", "generator", "base", "generator × base", "fine-tuning")


def parts(*variances: float) -> list[Component]:
    return [Component(name, v, 0.1, 0.0, 1.0, v) for name, v in zip(NAMES, variances, strict=True)]


def test_the_variance_of_the_mean_is_that_of_simulated_studies() -> None:
    true = np.array([0.5, 2.0, 1.0, 1.5, 0.3, 0.7])
    design, rng = Design(((2, 1), (1, 2), (2, 2)), 2, 1000), np.random.default_rng(0)
    means = []
    for _ in range(20_000):
        of_draws = []
        for generators, bases in design.draws:
            sizes = [
                (1, 1, 1),
                (1, 1, 1),
                (generators, 1, 1),
                (1, bases, 1),
                (generators, bases, 1),
                (generators, bases, 2),
            ]
            of_draws.append(
                sum(v**0.5 * rng.standard_normal(s) for v, s in zip(true, sizes, strict=True)).mean()
            )
        means.append(np.mean(of_draws))
    assert variance_of_mean(parts(*true), design, instances=1000) == pytest.approx(np.var(means), rel=0.05)


def test_more_instances_make_their_own_part_smaller_alone() -> None:
    found, design = parts(8.0, 1.0, 0.0, 0.0, 0.0, 0.0), Design(((1, 1),) * 2, 1, 4000)
    assert variance_of_mean(found, design, instances=1000) == pytest.approx((8 / 4 + 1) / 2)


@pytest.mark.parametrize("draws", [2, 4, 10])
@pytest.mark.parametrize("effect", [0.0, 1.0, 3.0])
def test_power_is_that_of_the_noncentral_t(draws: int, effect: float) -> None:
    limit = stats.t.ppf(0.975, draws - 1)
    wanted = stats.nct.sf(limit, draws - 1, effect) + stats.nct.cdf(-limit, draws - 1, effect)
    assert compute_power(1.0, draws, effect) == pytest.approx(wanted, abs=1e-3)


def test_power_is_how_often_the_t_test_finds_it() -> None:
    rng, draws, effect = np.random.default_rng(0), 4, 2.0
    samples = rng.normal(effect, 2.0**0.5, (20_000, draws))
    found = (stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05).mean()
    assert compute_power(2.0 / draws, draws, effect) == pytest.approx(found, abs=0.015)


def test_the_detectable_effect_is_found_with_a_chance_of_80_per_cent() -> None:
    assert compute_power(0.3, 4, compute_detectable_effect(0.3, 4)) == pytest.approx(0.8, abs=1e-3)
    assert compute_power(0.0, 2, 0.01) == 1.0


def test_the_needed_number_is_the_least_that_is_enough() -> None:
    found, design = parts(0.4, 0.2, 0.3, 0.2, 0.0, 0.3), Design(((2, 1), (1, 2)) * 2, 2, 900)
    wanted = compute_required_sizes(found, design, instances=900, effect=2.0)
    number = wanted["scenes"]
    assert number is not None
    for draws, enough in ((number, True), (number - 1, False)):
        size = design._replace(draws=tuple(design.draws[k % 4] for k in range(draws)))
        chance = compute_power(variance_of_mean(found, size, instances=900), draws, 2.0)
        assert (chance >= 0.8) is enough
    alone = wanted["scenes, one of each"]
    assert alone is not None
    assert alone >= number


def test_where_the_scenes_alone_are_too_much_no_number_of_others_is_enough() -> None:
    wanted = compute_required_sizes(
        parts(0, 9.0, 1, 1, 0, 1), Design(((1, 1),) * 3, 2, 900), instances=900, effect=1.0
    )
    assert [wanted[kind] for kind in ("instances", "generator", "base", "fine-tuning")] == [None] * 4
    assert wanted["scenes"] is not None


def test_factors_that_were_not_told_apart_count_as_the_coarsest() -> None:
    joined = [Component("scenes + generator + base", 2.0, 1.0, 0.0, 1.0, 2.0)]
    for draws in (((1, 1),) * 2, ((5, 5),) * 2):
        assert variance_of_mean(joined, Design(draws, 1, 100), instances=100) == pytest.approx(1.0)
