"""How often a scorer is right is counted in one way everywhere, with an interval that knows images and folds."""

import numpy as np
import pandas as pd
import pytest
from random_rows import make_random_rows

from caramel.blind.blind_accuracy import compute_blind_accuracy
from caramel.blind.scores import score_pairs
from caramel.blind.text.attack_results import compute_attack_metrics
from caramel.gates.blind_expectation import compute_accuracies
from caramel.utils.stats import share_interval


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
