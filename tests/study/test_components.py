"""Variance components against simulated studies whose variances are known, and against the textbook's mean squares."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.study.cells import Cell, list_cells
from caramel.study.components import (
    INSTANCES,
    Factors,
    assign_levels,
    compute_instance_variance,
    estimate_components,
    estimate_variances,
    quadratic_forms,
)
from caramel.utils.arrays import Floats

CROSSED = [(2, 2), (2, 2), (2, 2)]
IN_TURN = [(2, 1), (1, 2), (2, 1), (1, 2)]


def layout(draws: list[tuple[int, int]], seeds: int) -> Factors:
    return assign_levels([(cell, seed) for cell in list_cells(draws) for seed in range(seeds)])


def simulated(levels: Factors, sd: Floats, times: int, seed: int = 0) -> Floats:
    """Return studies whose effects have these standard deviations, (times, n)."""
    rng = np.random.default_rng(seed)
    parts = [
        s * rng.standard_normal((times, codes.max() + 1))[:, codes]
        for s, codes in zip(sd, levels.values(), strict=True)
    ]
    return 3.0 + np.sum(parts, axis=0)


@pytest.mark.parametrize(("draws", "seeds"), [(CROSSED, 2), (IN_TURN, 2), ([(3, 2), (1, 1), (2, 2)], 3)])
def test_estimates_are_unbiased_whatever_the_layout(draws: list[tuple[int, int]], seeds: int) -> None:
    levels = layout(draws, seeds)
    true = np.array([4.0, 3.0, 2.0, 1.0, 1.5][: len(levels)])
    studies = simulated(levels, np.sqrt(true), 20_000)
    found = np.einsum("si,kij,sj->sk", studies, quadratic_forms(levels), studies)
    error = found.std(axis=0) / len(studies) ** 0.5
    assert (np.abs(found.mean(axis=0) - true) < 4 * error).all()


def test_a_balanced_nested_layout_gives_the_mean_squares_of_the_textbook() -> None:
    levels = layout([(2, 1)] * 3, 2)
    assert list(levels) == ["scenes + base", "generator", "fine-tuning"]
    values = np.random.default_rng(1).normal(size=12)
    y = values.reshape(3, 2, 2)  # scenes, generators, seeds
    seeds = y.var(axis=2, ddof=1).mean()
    generators = 2 * y.mean(axis=2).var(axis=1, ddof=1).mean()
    scenes = 4 * y.mean(axis=(1, 2)).var(ddof=1)
    wanted = [(scenes - generators) / 4, (generators - seeds) / 2, seeds]
    assert estimate_variances(values, levels) == pytest.approx(wanted)


def test_the_level_of_all_values_does_not_matter() -> None:
    levels, values = layout(IN_TURN, 2), np.random.default_rng(2).normal(size=16)
    assert estimate_variances(values + 100.0, levels) == pytest.approx(
        estimate_variances(values, levels), abs=1e-9
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([CROSSED, IN_TURN, [(1, 1), (1, 1)]]), st.floats(0, 2))
def test_shares_are_in_zero_to_one_and_sum_to_one(
    seed: int, draws: list[tuple[int, int]], of_instances: float
) -> None:
    levels = layout(draws, 2)
    values = simulated(levels, np.ones(len(levels)), 1, seed)[0]
    found = estimate_components(values, levels, of_instances=of_instances, seed=0)
    assert sum(part.share for part in found) == pytest.approx(1)
    assert all(0 <= part.share <= 1 and part.variance >= 0 for part in found)
    assert all(part.truncated == (part.moment < 0) for part in found)
    assert all(part.low <= part.high for part in found[2:])


def test_a_negative_estimate_is_zero_and_said() -> None:
    levels = layout([(1, 1), (1, 1)], 2)
    found = estimate_components(np.array([0.0, 1.0, 1.0, 0.0]), levels, of_instances=0.0, seed=0)
    by_name = {part.name: part for part in found}
    scenes = by_name["scenes + generator + base"]
    assert (scenes.moment, scenes.variance, scenes.truncated) == (pytest.approx(-0.25), 0.0, True)
    assert by_name["fine-tuning"].share == 1
    assert by_name["fine-tuning"].high > 0


def test_studies_without_any_spread_have_no_shares() -> None:
    found = estimate_components(np.ones(16), layout(IN_TURN, 2), of_instances=0.0, seed=0)
    assert all(part.variance == pytest.approx(0, abs=1e-20) for part in found)


def test_intervals_hold_the_truth() -> None:
    levels = layout(IN_TURN, 2)
    true = np.array([2.0, 1.0, 1.0, 1.0])
    studies = simulated(levels, np.sqrt(true), 60, seed=5)
    held = [
        [part.low <= t <= part.high for part, t in zip(found[2:], true[1:], strict=True)]
        for found in (estimate_components(study, levels, of_instances=0.0, seed=0) for study in studies)
    ]
    assert (np.mean(held, axis=0) > 0.85).all()


def test_the_scenes_have_no_interval_and_few_levels_of_another_say_next_to_nothing() -> None:
    levels = layout([(2, 1)] * 3, 1)
    values = np.array([0.0, 0.1, 2.0, 2.4, -1.0, -0.9])
    _, scenes, generator = estimate_components(values, levels, of_instances=0.1, seed=0)
    assert scenes.name == "scenes + base"
    assert scenes.variance > 1
    assert np.isnan([scenes.low, scenes.high]).all()
    assert generator.high / generator.variance > 10
    assert generator.low < generator.variance / 2


def hits(values: Floats) -> pd.Series:
    names = [(f"image{i}", f"image{i}:x") for i in range(len(values))]
    return pd.Series(values, index=pd.MultiIndex.from_tuples(names, names=["image_id", "instance_id"]))


def test_only_what_runs_share_counts_as_the_choice_of_instances() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        shared = rng.normal(0, 2, 100)
        runs = [(Cell(0, k, 0), hits(shared + rng.normal(0, 5, 100))) for k in range(2)]
        found.append(compute_instance_variance(runs)[0])
    assert np.mean(found) == pytest.approx(4 / 100, rel=0.35)  # a tenth of them is cut at 0
    alone = rng.normal(0, 2, 100)
    assert compute_instance_variance([(Cell(0, 0, 0), hits(alone))]) == (
        pytest.approx(alone.var(ddof=0) / 99),
        100,
    )


def test_instances_that_one_run_lacks_add_nothing_to_what_runs_share() -> None:
    values = np.arange(10.0)
    both = [(Cell(0, 0, 0), hits(values)), (Cell(0, 1, 0), hits(values[:6]))]
    products = [(v - values.mean()) / 10 * (v - values[:6].mean()) / 6 for v in values[:6]]
    assert compute_instance_variance(both) == (pytest.approx(sum(products) * 10 / 9), 8)


def test_it_is_the_covariance_of_means_where_each_generator_fills_instances_alone() -> None:
    rng, found = np.random.default_rng(0), []
    for _ in range(150):
        shared, both = hits(rng.normal(0, 1, 200)), []
        for k in range(2):
            filled = shared[rng.random(200) < 0.6]
            names = [(f"{image}#{k}", name) for image, name in filled.index]  # the picture that it drew
            both.append(
                (Cell(0, k, 0), filled.set_axis(pd.MultiIndex.from_tuples(names, names=shared.index.names)))
            )
        found.append(compute_instance_variance(both)[0])
    assert np.mean(found) == pytest.approx(200 * 0.36 / 120**2, rel=0.15)


def test_what_a_layout_cannot_tell_apart_bears_both_names() -> None:
    assert list(layout([(1, 1), (1, 1)], 1)) == ["scenes + generator + base + fine-tuning"]
    assert list(layout([(2, 2), (2, 2)], 1)) == [
        "scenes",
        "generator",
        "base",
        "generator × base + fine-tuning",
    ]
    assert list(layout(IN_TURN, 2)) == ["scenes", "generator", "base", "fine-tuning"]
    assert INSTANCES not in layout(CROSSED, 2)
