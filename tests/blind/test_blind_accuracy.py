"""How often a scorer is right is counted in one way everywhere, with an interval that knows images and folds."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_rows import make_random_rows
from scipy.stats import t

from caramel.blind.blind_accuracy import compute_blind_accuracy
from caramel.blind.scores import score_pairs
from caramel.blind.text.attack_results import compute_attack_metrics
from caramel.gates.blind_expectation import compute_accuracies
from caramel.utils.stats import share_interval, wilson_interval


def test_blind_accuracy_counts_ties_half_and_averages_subtypes():
    pairs, negatives = make_random_rows(14)
    negatives = negatives.assign(subtype=["swap_obj"] * 12 + ["swap_att"] * 2, type="swap")
    positive = np.array([0.9] * 6 + [0.5] * 4 + [0.1] * 2 + [0.9] * 2)
    scores = pd.DataFrame(
        {
            "negative_id": negatives["negative_id"],
            "scorer": "m",
            "positive_score": positive,
            "negative_score": 0.5,
        }
    )
    found = compute_blind_accuracy(scores, negatives, pairs=pairs, folds=5)["m"]
    assert list(found) == ["all", "macro", "swap", "swap_obj", "swap_att"]
    assert found["swap_obj"] | {"ci_low": 0, "ci_high": 1} == {
        **{"accuracy": round(8 / 12, 6), "strict": 0.5, "n": 12, "ties": 4},
        **{"ci_low": 0, "ci_high": 1},
    }
    assert found["all"]["accuracy"] == round(10 / 14, 6)
    assert found["macro"]["accuracy"] == round((8 / 12 + 1) / 2, 6)
    for one in found.values():
        assert 0 <= one["ci_low"] <= one["accuracy"] <= one["ci_high"] <= 1


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=60))
def test_the_interval_is_wilsons_where_rows_are_independent(hits):
    values, zeros = np.array(hits, dtype=float), np.zeros(len(hits), dtype=np.int64)
    share, low, high = share_interval(values, zeros, np.arange(len(hits)), factor=1)
    assert share == pytest.approx(values.mean())
    expected = wilson_interval(share, len(hits))
    if 0 < share < 1:  # the variance is estimated, where there is any
        expected = wilson_interval(share, len(hits) - 1, t.ppf(0.975, len(hits) - 1))
    assert (low, high) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("images", [2, 3, 10])
def test_few_images_that_happen_to_agree_show_nothing(images):
    """Hits of an image depend on each other: its rows share a probability, which is drawn."""
    rng = np.random.default_rng(0)
    image, zeros = np.arange(images).repeat(100), np.zeros(images * 100, dtype=np.int64)
    held = []
    for _ in range(1500):
        hits = rng.random(image.size) < np.clip(rng.normal(0.5, 0.15, images), 0, 1)[image]
        _, low, high = share_interval(hits.astype(float), zeros, image, factor=1)
        held.append(low <= 0.5 <= high)
    assert np.mean(held) == pytest.approx(0.95, abs=0.03)


def test_of_one_image_nothing_is_known_of_the_spread():
    ones = np.zeros(9, dtype=np.int64)
    assert share_interval(np.eye(9)[0], ones, ones, factor=1) == (pytest.approx(1 / 9), 0, 1)


def test_the_interval_is_wider_where_rows_of_an_image_agree():
    values, zeros = np.tile([0.0, 1.0], 50).repeat(4), np.zeros(400, dtype=np.int64)
    _, low, high = share_interval(values, zeros, np.arange(400), factor=1)
    _, wide_low, wide_high = share_interval(values, zeros, np.arange(400) // 4, factor=1)
    assert wide_low < low < 0.5 < high < wide_high


@pytest.mark.parametrize("folds", [2, 5, 20])
def test_the_interval_is_one_and_the_same_in_file_gate_and_audit_for_any_number_of_folds(folds):
    pairs, negatives = make_random_rows(120)
    scores = score_pairs(pairs, negatives, scorers=["ngram"], folds=folds, seed=3)
    rows = negatives.merge(pairs, on="pair_id").merge(scores, on="negative_id")
    gaps = (rows["positive_score"] - rows["negative_score"]).to_numpy()
    image = np.unique(rows["image_id"], return_inverse=True)[1]
    file = compute_blind_accuracy(scores, negatives, pairs=pairs, folds=folds)["ngram"]["all"]
    audit = compute_attack_metrics(rows, {"ngram": gaps}, image, folds=folds, seed=0)["ngram"]["overall"]
    gate = compute_accuracies(
        rows.assign(ngram_gap=gaps),
        column_caption="caption",
        column_negative="negative_caption",
        column_group="image_id",
        column_type=None,
        scorers=["ngram"],
        folds=folds,
        seed=0,
    )[0]
    hits, zeros = (gaps > 0) + 0.5 * (gaps == 0), np.zeros(len(rows), dtype=np.int64)
    _, low, high = share_interval(hits, zeros, image, factor=1 + folds / (folds - 1))
    for found in (
        (file["ci_low"], file["ci_high"]),
        (audit["ci_low"], audit["ci_high"]),
        (gate.low, gate.high),
    ):
        assert found == pytest.approx((low, high), abs=1e-6)
