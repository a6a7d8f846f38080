import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, t

from caramel.utils.stats import (
    EXHAUSTIVE,
    FLIPS,
    LEAST_GUESS_P,
    above_chance_p_value,
    bootstrap_means,
    compute_means,
    count_clusters,
    format_p,
    fraction_intervals,
    holm_correction,
    share_interval,
    sign_flip_p_value,
    standard_errors,
    summarise_seeds,
    wilson_interval,
)


def grouped(rng: np.random.Generator, clusters: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """Return hits that agree strongly within a cluster (true mean 0.5), and the clusters."""
    chance = rng.beta(0.3, 0.3, size=clusters)
    hits = rng.random((clusters, each)) < chance[:, None]
    return hits.ravel().astype(float), np.repeat(np.arange(clusters), each)


def interval(
    hits: np.ndarray, clusters: np.ndarray, *, resamples: int, seed: int
) -> tuple[float, float, float]:
    """Return the mean of one column of hits and its interval."""
    column = hits[:, None]
    samples = bootstrap_means(column, clusters, resamples=resamples, seed=seed)
    low, high = fraction_intervals(compute_means(column), samples, count_clusters(column, clusters))
    return float(compute_means(column)[0]), float(low[0]), float(high[0])


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(300):
        hits, clusters = grouped(rng, clusters=60, each=4)
        _, low, high = interval(hits, clusters, resamples=300, seed=trial)
        covered += low <= 0.5 <= high
    assert 0.90 <= covered / 300 <= 0.985


def test_clustering_widens_the_interval_of_dependent_instances() -> None:
    hits, clusters = grouped(np.random.default_rng(2), clusters=100, each=5)
    _, low, high = interval(hits, clusters, resamples=1000, seed=0)
    _, naive_low, naive_high = interval(hits, np.arange(len(hits)), resamples=1000, seed=0)
    assert high - low > 1.5 * (naive_high - naive_low)


def test_equal_seeds_give_equal_samples_and_other_seeds_do_not() -> None:
    hits, clusters = grouped(np.random.default_rng(3), clusters=30, each=3)
    first, again, other = (
        bootstrap_means(hits[:, None], clusters, resamples=50, seed=seed) for seed in (7, 7, 8)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_many_resamples_in_blocks_are_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    hits, clusters = grouped(np.random.default_rng(3), clusters=30, each=3)
    whole = bootstrap_means(hits[:, None], clusters, resamples=50, seed=7)
    monkeypatch.setattr("caramel.utils.stats._BLOCK", 90)
    assert np.array_equal(whole, bootstrap_means(hits[:, None], clusters, resamples=50, seed=7))


def test_a_sample_mean_is_the_mean_over_the_drawn_clusters() -> None:
    values = np.array([1.0, 0.0, np.nan, 1.0, 1.0, 0.0])
    clusters = np.array([0, 0, 1, 1, 2, 2])
    samples = bootstrap_means(values[:, None], clusters, resamples=20, seed=5)[:, 0]
    draws = np.random.default_rng(5).multinomial(3, [1 / 3] * 3, size=20)
    for sample, draw in zip(samples, draws, strict=True):
        drawn = np.repeat(values, draw[clusters])
        assert sample == pytest.approx(np.nanmean(drawn))


def test_unscored_values_are_left_out_and_nothing_scored_is_nan() -> None:
    values = np.array([[1.0, np.nan], [np.nan, np.nan], [0.0, np.nan]])
    assert compute_means(values)[0] == 0.5
    assert np.isnan(compute_means(values)[1])
    samples = bootstrap_means(values, np.array([0, 1, 2]), resamples=100, seed=0)
    low, high = fraction_intervals(compute_means(values), samples, np.array([2, 0]))
    assert low[0] <= 0.5 <= high[0]
    assert np.isnan([low[1], high[1]]).all()


def test_without_clusters_the_interval_is_wilsons() -> None:
    hits = np.repeat([1.0, 0.0], [930, 70])
    value, low, high = interval(hits, np.arange(1000), resamples=20_000, seed=0)
    expected = binomtest(930, 1000).proportion_ci(method="wilson")
    assert value == 0.93
    assert (low, high) == (pytest.approx(expected.low, abs=6e-4), pytest.approx(expected.high, abs=6e-4))


@pytest.mark.parametrize("always", [0.0, 1.0])
def test_all_hits_or_none_do_not_make_a_certainty(always: float) -> None:
    value, low, high = interval(np.full(600, always), np.repeat(np.arange(200), 3), resamples=100, seed=0)
    expected = binomtest(round(200 * always), 200).proportion_ci(method="wilson")
    assert low <= value <= high
    assert high - low == pytest.approx(expected.high - expected.low, rel=0.03)


def test_clusters_are_counted_where_they_hold_a_value() -> None:
    values = np.array([[1.0, np.nan], [0.0, np.nan], [1.0, 1.0], [np.nan, np.nan]])
    assert count_clusters(values, np.array([0, 0, 1, 2])).tolist() == [2, 1]


def test_standard_error_is_that_of_the_mean() -> None:
    values = np.random.default_rng(0).normal(size=(40, 1))
    samples = bootstrap_means(values, np.arange(40), resamples=20_000, seed=0)
    assert standard_errors(samples, np.array([40]))[0] == pytest.approx(
        values.std(ddof=1) / 40**0.5, rel=0.02
    )


def test_few_flips_are_all_taken() -> None:
    totals = np.random.default_rng(1).integers(-3, 4, size=(9, 20)).astype(float)
    flips = np.array(list(itertools.product((1.0, -1.0), repeat=9)))
    for column, p in zip(totals.T, sign_flip_p_value(totals, seed=0), strict=True):
        assert p == pytest.approx((np.abs(flips @ column) >= abs(column.sum())).mean())


def test_flips_of_single_instances_are_the_exact_sign_test() -> None:
    for won, lost in ((10, 2), (60, 35), (300, 280)):
        totals = np.repeat([1.0, -1.0], [won, lost])[:, None]
        expected = binomtest(won, won + lost).pvalue
        drawn = won + lost > EXHAUSTIVE
        assert sign_flip_p_value(totals, seed=0)[0] == pytest.approx(expected, abs=0.015 if drawn else 1e-12)


def test_more_flips_give_a_smaller_p() -> None:
    totals = np.ones((60, 1))
    assert sign_flip_p_value(totals, seed=0, flips=999)[0] == pytest.approx(1 / 1000)
    assert sign_flip_p_value(totals, seed=0, flips=99_999)[0] == pytest.approx(1 / 100_000)


def test_nothing_that_differs_is_no_evidence() -> None:
    assert sign_flip_p_value(np.zeros((30, 2)), seed=0).tolist() == [1.0, 1.0]


def test_holm_corrects_as_in_the_definition() -> None:
    p = np.array([0.04, 0.001, np.nan, 0.02, 0.9, 0.03])
    # In order: 0.001 * 5, 0.02 * 4, 0.03 * 3, 0.04 * 2, 0.9 * 1; never falling.
    assert holm_correction(p) == pytest.approx([0.09, 0.005, np.nan, 0.08, 0.9, 0.09], nan_ok=True)
    assert holm_correction(np.array([0.6, 0.7])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("rows", [0, 4])
def test_fewer_than_two_clusters_have_no_interval(rows: int) -> None:
    value, low, high = interval(np.ones(rows), np.zeros(rows, int), resamples=100, seed=0)
    assert np.isnan([low, high]).all()
    assert np.isnan(value) == (rows == 0)


def test_seeds_give_the_t_interval() -> None:
    mean, sd, low, high, n = summarise_seeds(np.array([0.5, 0.6, 0.7]))
    assert (mean, sd, n) == (pytest.approx(0.6), pytest.approx(0.1), 3)
    assert high - mean == pytest.approx(4.302653 * 0.1 / 3**0.5)
    assert mean - low == pytest.approx(high - mean)


def test_one_seed_has_a_mean_and_no_spread() -> None:
    mean, sd, low, high, n = summarise_seeds(np.array([0.5]))
    assert (mean, n) == (0.5, 1)
    assert np.isnan([sd, low, high]).all()


def test_a_p_that_draws_could_not_make_smaller_is_a_bound() -> None:
    clear = np.ones((60, 1))
    (least,) = sign_flip_p_value(clear, 0)
    assert least == 1 / (FLIPS + 1)
    for stored in (least, round(least, 6)):
        assert format_p(stored, ".2g", least=least) == "≤ 0.0001"
    (of_more,) = sign_flip_p_value(clear, 0, flips=4 * FLIPS)
    assert format_p(of_more, ".1g", least=1 / (4 * FLIPS + 1)) == "≤ 3e-05"
    assert format_p(2 * of_more, ".1g", least=1 / (4 * FLIPS + 1)) == "5e-05", (
        "no bound, though 10,000 flips give none"
    )
    (of_guesses,) = above_chance_p_value(clear[:, None] * [[-1], [1]], np.random.default_rng(0), factor=1.0)
    assert format_p(of_guesses, ".4f", least=LEAST_GUESS_P) == "≤ 0.0005"
    assert format_p(30 * least, ".4f", least=least, uncorrected=least) == "≤ 0.0030"


@pytest.mark.parametrize(
    ("p", "form", "text"),
    [
        (0.00034, ".4f", "≤ 0.0004"),
        (0.0300001, ".4f", "≤ 0.0301"),
        (3 * 0.0001, ".4f", "≤ 0.0003"),
        (0.00302, ".2g", "≤ 0.0031"),
        (1.0, ".4f", "≤ 1.0000"),
    ],
)
def test_a_bound_is_rounded_up(p: float, form: str, text: str) -> None:
    assert format_p(p, form, least=0.0001, uncorrected=0.0001) == text


def test_what_was_not_tested_has_no_bound() -> None:
    assert format_p(float("nan"), ".4f", least=0.0001) == "–"
    assert format_p(float("nan"), ".4f", least=0.0001, uncorrected=float("nan")) == "–"


def test_any_other_p_is_the_number_itself() -> None:
    assert format_p(2 / (FLIPS + 1), ".2g", least=1 / (FLIPS + 1), equals="= ") == "= 0.0002"
    assert format_p(0.0010, ".4f", least=LEAST_GUESS_P) == "0.0010"
    assert format_p(0.003, ".4f", least=1 / (FLIPS + 1), uncorrected=0.0015) == "0.0030"


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=60))
def test_the_interval_is_wilsons_where_rows_are_independent(hits: list[bool]) -> None:
    values, zeros = np.array(hits, dtype=float), np.zeros(len(hits), dtype=np.int64)
    share, low, high = share_interval(values, zeros, np.arange(len(hits)), factor=1)
    assert share == pytest.approx(values.mean())
    expected = wilson_interval(share, len(hits))
    if 0 < share < 1:  # the variance is estimated, where there is any
        expected = wilson_interval(share, len(hits) - 1, t.ppf(0.975, len(hits) - 1))
    assert (low, high) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("images", [2, 3, 10])
def test_few_images_that_happen_to_agree_show_nothing(images: int) -> None:
    """Hits of an image depend on each other: its rows share a probability, which is drawn."""
    rng = np.random.default_rng(0)
    image, zeros = np.arange(images).repeat(100), np.zeros(images * 100, dtype=np.int64)
    held = []
    for _ in range(1500):
        hits = rng.random(image.size) < np.clip(rng.normal(0.5, 0.15, images), 0, 1)[image]
        _, low, high = share_interval(hits.astype(float), zeros, image, factor=1)
        held.append(low <= 0.5 <= high)
    assert np.mean(held) == pytest.approx(0.95, abs=0.03)


def test_of_one_image_nothing_is_known_of_the_spread() -> None:
    ones = np.zeros(9, dtype=np.int64)
    assert share_interval(np.eye(9)[0], ones, ones, factor=1) == (pytest.approx(1 / 9), 0, 1)


def test_the_interval_is_wider_where_rows_of_an_image_agree() -> None:
    values, zeros = np.tile([0.0, 1.0], 50).repeat(4), np.zeros(400, dtype=np.int64)
    _, low, high = share_interval(values, zeros, np.arange(400), factor=1)
    _, wide_low, wide_high = share_interval(values, zeros, np.arange(400) // 4, factor=1)
    assert wide_low < low < 0.5 < high < wide_high
