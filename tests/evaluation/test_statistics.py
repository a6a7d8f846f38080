import numpy as np
import pytest

from caramel.evaluation.statistics import (
    clustered_interval,
    means,
    over_seeds,
    paired_difference,
    percentiles,
    resampled_means,
)


def grouped(rng: np.random.Generator, clusters: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """Return hits that agree strongly within a cluster (true mean 0.5), and the clusters."""
    chance = rng.beta(0.3, 0.3, size=clusters)
    hits = rng.random((clusters, each)) < chance[:, None]
    return hits.ravel().astype(float), np.repeat(np.arange(clusters), each)


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(300):
        hits, clusters = grouped(rng, clusters=60, each=4)
        _, low, high = clustered_interval(hits, clusters, resamples=300, seed=trial)
        covered += low <= 0.5 <= high
    assert 0.90 <= covered / 300 <= 0.985


def test_clustering_widens_the_interval_of_dependent_instances() -> None:
    hits, clusters = grouped(np.random.default_rng(2), clusters=100, each=5)
    _, low, high = clustered_interval(hits, clusters, resamples=1000, seed=0)
    _, naive_low, naive_high = clustered_interval(hits, np.arange(len(hits)), resamples=1000, seed=0)
    assert high - low > 1.5 * (naive_high - naive_low)


def test_equal_seeds_give_equal_samples_and_other_seeds_do_not() -> None:
    hits, clusters = grouped(np.random.default_rng(3), clusters=30, each=3)
    first, again, other = (
        resampled_means(hits[:, None], clusters, resamples=50, seed=seed) for seed in (7, 7, 8)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_many_resamples_in_blocks_are_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    hits, clusters = grouped(np.random.default_rng(3), clusters=30, each=3)
    whole = resampled_means(hits[:, None], clusters, resamples=50, seed=7)
    monkeypatch.setattr("caramel.evaluation.statistics._BLOCK", 90)
    assert np.array_equal(whole, resampled_means(hits[:, None], clusters, resamples=50, seed=7))


def test_a_sample_mean_is_the_mean_over_the_drawn_clusters() -> None:
    values = np.array([1.0, 0.0, np.nan, 1.0, 1.0, 0.0])
    clusters = np.array([0, 0, 1, 1, 2, 2])
    samples = resampled_means(values[:, None], clusters, resamples=20, seed=5)[:, 0]
    draws = np.random.default_rng(5).multinomial(3, [1 / 3] * 3, size=20)
    for sample, draw in zip(samples, draws, strict=True):
        drawn = np.repeat(values, draw[clusters])
        assert sample == pytest.approx(np.nanmean(drawn))


def test_unscored_values_are_left_out_and_nothing_scored_is_nan() -> None:
    values = np.array([[1.0, np.nan], [np.nan, np.nan], [0.0, np.nan]])
    assert means(values)[0] == 0.5
    assert np.isnan(means(values)[1])
    low, high = percentiles(resampled_means(values, np.array([0, 1, 2]), resamples=100, seed=0))
    assert low[0] <= 0.5 <= high[0]
    assert np.isnan([low[1], high[1]]).all()


@pytest.mark.parametrize("rows", [0, 4])
def test_fewer_than_two_clusters_have_no_interval(rows: int) -> None:
    value, low, high = clustered_interval(np.ones(rows), np.zeros(rows, int), resamples=100, seed=0)
    assert np.isnan([low, high]).all()
    assert np.isnan(value) == (rows == 0)


def test_difference_of_a_model_and_itself_is_exactly_nothing() -> None:
    hits, clusters = grouped(np.random.default_rng(4), clusters=40, each=3)
    one = hits[None, :, None]
    point, samples = paired_difference(one, one, clusters, resamples=200, seed=0)
    assert point[0] == 0
    assert (samples == 0).all()


def test_pairing_narrows_the_interval_of_correlated_models() -> None:
    rng = np.random.default_rng(5)
    b, clusters = grouped(rng, clusters=100, each=3)
    a = np.where(rng.random(len(b)) < 0.1, 1.0, b)
    point, samples = paired_difference(a[None, :, None], b[None, :, None], clusters, resamples=1000, seed=0)
    low, high = percentiles(samples)
    alone = clustered_interval(a, clusters, resamples=1000, seed=0)
    assert point[0] == pytest.approx((a - b).mean())
    assert low[0] <= point[0] <= high[0]
    assert high[0] - low[0] < 0.7 * (alone.high - alone.low)


def test_spread_over_seeds_widens_the_difference() -> None:
    rng = np.random.default_rng(6)
    b, clusters = grouped(rng, clusters=100, each=3)
    better, worse = np.ones_like(b), np.zeros_like(b)
    steady = np.stack([b, b])[:, :, None]
    shaky = np.stack([better, worse])[:, :, None]
    base = b[None, :, None]
    _, calm = paired_difference(steady, base, clusters, resamples=500, seed=0)
    _, wide = paired_difference(shaky, base, clusters, resamples=500, seed=0)
    assert np.ptp(calm) == 0
    assert np.ptp(wide) > 0.9


def test_an_instance_counts_only_where_both_scored_it() -> None:
    a = np.array([1.0, 1.0, np.nan, 0.0])
    b = np.array([0.0, np.nan, 0.0, 0.0])
    point, _ = paired_difference(a[None, :, None], b[None, :, None], np.arange(4), resamples=100, seed=0)
    assert point[0] == 0.5


def test_seeds_give_the_t_interval() -> None:
    mean, sd, low, high, n = over_seeds(np.array([0.5, 0.6, 0.7]))
    assert (mean, sd, n) == (pytest.approx(0.6), pytest.approx(0.1), 3)
    assert high - mean == pytest.approx(4.302653 * 0.1 / 3**0.5)
    assert mean - low == pytest.approx(high - mean)


def test_one_seed_has_a_mean_and_no_spread() -> None:
    mean, sd, low, high, n = over_seeds(np.array([0.5]))
    assert (mean, n) == (0.5, 1)
    assert np.isnan([sd, low, high]).all()
