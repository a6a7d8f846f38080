import numpy as np
import pytest

from caramel.utils.corrected_scores import (
    ErrorCount,
    correct_prediction_powered,
    correct_rogan_gladen,
)


def draw(n: int = 20_000, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return (hits, verdicts, truths, clusters): 80 % right; hits 70 % on right, 40 % on wrong instances."""
    rng = np.random.default_rng(seed)
    truths = (rng.random(n) < 0.8).astype(float)
    hits = (rng.random(n) < np.where(truths == 1, 0.7, 0.4)).astype(float)
    verdicts = (rng.random(n) < np.where(truths == 1, 0.9, 0.3)).astype(float)
    return hits, verdicts, truths, np.arange(n) // 2


def test_both_corrections_find_the_score_on_right_instances() -> None:
    hits, verdicts, truths, clusters = draw()
    gladen = correct_rogan_gladen(hits, verdicts, clusters, ErrorCount(30_000, 100_000))
    sample = np.where(np.arange(len(hits)) % 10 == 0, truths, np.nan)
    powered = correct_prediction_powered(hits, verdicts, sample, clusters)
    for found in (gladen, powered):
        assert found.score == pytest.approx(0.7, abs=0.02)
        assert found.low < 0.7 < found.high
    assert hits.mean() == pytest.approx(0.64, abs=0.01)


def test_a_known_truth_of_all_gives_the_mean_over_right_instances() -> None:
    hits, verdicts, truths, clusters = draw(500)
    found = correct_prediction_powered(hits, verdicts, truths, clusters)
    assert found.score == pytest.approx(hits[truths == 1].mean())


def test_a_judge_that_errs_with_the_model_misleads_rogan_gladen_but_not_the_other() -> None:
    hits, _, truths, clusters = draw()
    verdicts = np.where(truths == 1, 1.0, hits)  # accepts a wrong instance exactly if the model has it right
    rate = ErrorCount(int((verdicts * (1 - truths)).sum()), int((1 - truths).sum()))
    assert correct_rogan_gladen(hits, verdicts, clusters, rate).low > 0.7
    sample = np.where(np.arange(len(hits)) % 10 == 0, truths, np.nan)
    found = correct_prediction_powered(hits, verdicts, sample, clusters)
    assert found.low < 0.7 < found.high


def test_verdicts_make_the_interval_shorter_than_the_sample_alone() -> None:
    hits, verdicts, truths, clusters = draw(4000)
    verdicts = np.where(np.arange(4000) % 20 == 0, verdicts, truths)  # a good judge
    sample = np.where(np.arange(4000) % 10 == 0, truths, np.nan)
    powered = correct_prediction_powered(hits, verdicts, sample, clusters)
    alone = correct_prediction_powered(hits, np.zeros(4000), sample, clusters)
    assert powered.high - powered.low < 0.6 * (alone.high - alone.low)


def test_an_unsure_rate_of_false_accepts_makes_the_interval_longer() -> None:
    hits, verdicts, _, clusters = draw()
    few, many = (correct_rogan_gladen(hits, verdicts, clusters, ErrorCount(3 * n, 10 * n)) for n in (2, 1000))
    assert few.high - few.low > 2 * (many.high - many.low)


def test_what_the_data_do_not_determine_is_unknown() -> None:
    hits, verdicts, truths, clusters = draw(200)
    for found in (
        correct_rogan_gladen(hits, verdicts, clusters, ErrorCount(0, 0)),
        correct_rogan_gladen(hits, verdicts, clusters, ErrorCount(100, 100)),
        correct_prediction_powered(hits, verdicts, np.full(200, np.nan), clusters),
        correct_prediction_powered(hits, verdicts, np.where(truths == 0, 0, np.nan), clusters),
    ):
        assert np.isnan(found.score)
        assert (found.low, found.high) == (0.0, 1.0)


def test_a_model_that_is_always_right_has_an_interval_below_one() -> None:
    _, verdicts, truths, clusters = draw(200)
    sample = np.where(np.arange(200) % 4 == 0, truths, np.nan)
    for found in (
        correct_rogan_gladen(np.ones(200), verdicts, clusters, ErrorCount(3, 10)),
        correct_prediction_powered(np.ones(200), verdicts, sample, clusters),
    ):
        assert found.score == found.high == 1
        assert 0.8 < found.low < 1


def test_an_estimate_beyond_the_ends_keeps_its_uncertainty() -> None:
    """A judge that accepts 55 %, and half of 40 wrong instances, tells next to nothing."""
    verdicts = np.repeat([1.0, 0.0], [220, 180])
    hits = np.concatenate([np.arange(220) < 88, np.arange(180) < 126]).astype(float)
    found = correct_rogan_gladen(hits, verdicts, np.arange(400), ErrorCount(20, 40))
    assert (found.score, found.low) == (0, 0)
    assert found.high > 0.5


@pytest.mark.parametrize(
    ("score", "accepts", "n"),
    [
        (0.97, (0.9, 0.3), 400),
        (0.03, (0.9, 0.3), 400),
        (0.97, (0.7, 0.5), 400),
        (0.03, (0.7, 0.5), 400),
        (0.99, (0.9, 0.3), 60),
    ],
)
def test_intervals_hold_scores_near_the_ends_from_small_samples(
    score: float, accepts: tuple[float, float], n: int
) -> None:
    """At 95 %, 200 trials are below 90 % once in a thousand times."""
    rng, held = np.random.default_rng(0), np.zeros(2)
    for _ in range(200):
        truths = (rng.random(n) < 0.8).astype(float)
        hits = (rng.random(n) < np.where(truths == 1, score, 0.5)).astype(float)
        verdicts = (rng.random(n) < np.where(truths == 1, *accepts)).astype(float)
        sample = np.where(rng.permutation(n) < 40, truths, np.nan)
        rate = ErrorCount(int(rng.binomial(20, accepts[1])), 20)
        for method, found in enumerate(
            (
                correct_rogan_gladen(hits, verdicts, np.arange(n), rate),
                correct_prediction_powered(hits, verdicts, sample, np.arange(n)),
            )
        ):
            held[method] += found.low <= score <= found.high
    assert (held >= 0.9 * 200).all(), held
