import numpy as np
import pandas as pd
import pytest
from annotated import decided

from caramel.errors import DataError
from caramel.sources.images.label_calibration import build_labels_of_decisions, calibrate_on_labels
from caramel.sources.images.people_calibration import calibrate_on_decisions

SHARED = ("threshold", "precision", "recall", "precision_interval", "recall_interval")


def judged(number: int, gap: float, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return scores of two candidates each, and decisions: every other negative has a chosen candidate."""
    rng = np.random.default_rng(seed)
    decisions = {f"n{n:03d}": ("none", str(n // 2 % 2))[n % 2] for n in range(number)}
    rows = [
        {
            "negative_id": name,
            "candidate": c,
            "image_id": f"{name}#{c}",
            "score": float(np.clip(0.5 + gap * (decision == str(c)) + rng.normal(0, 0.02), 0, 1)),
        }
        for name, decision in decisions.items()
        for c in range(2)
    ]
    return pd.DataFrame(rows), decided("choose", decisions)


def test_a_judge_that_agrees_with_people_has_no_errors() -> None:
    quality = calibrate_on_decisions(*judged(200, 0.3), seed=0)
    assert (quality.chosen, quality.refused) == (100, 100)
    assert 0.55 < quality.threshold < 0.8
    assert (quality.precision, quality.recall, quality.specificity) == (1.0, 1.0, 1.0)
    assert quality.precision_interval[0] < 1.0


def test_a_judge_that_knows_nothing_is_not_flattered_by_its_own_threshold() -> None:
    qualities = [calibrate_on_decisions(*judged(200, 0.0, seed), seed=0) for seed in range(20)]
    # Of refused negatives the better of two counts, so that a judge by chance is right in less than half.
    balanced = np.mean([(quality.recall + quality.specificity) / 2 for quality in qualities])
    assert 0.4 < balanced < 0.56


def test_too_few_decisions_and_decisions_on_other_candidates_are_errors() -> None:
    with pytest.raises(
        DataError, match="on 20 images with a caption that fits and 20 with one that does not: at least 30"
    ):
        calibrate_on_decisions(*judged(40, 0.3), seed=0)
    scores, decisions = judged(200, 0.3)
    with pytest.raises(
        DataError, match="chose candidates that have no score or do not exist, of 100 negatives"
    ):
        calibrate_on_decisions(scores.assign(candidate=7), decisions, seed=0)


def test_the_command_and_the_stage_calibrate_alike() -> None:
    scores, decisions = judged(200, 0.05)
    quality = calibrate_on_decisions(scores, decisions, seed=3)
    negatives = pd.DataFrame(
        {"negative_id": scores["negative_id"].unique(), "negative_caption": "One caption."}
    )
    score_of = dict(zip(scores["image_id"], scores["score"], strict=True))

    class Judge:
        name = "stored"

        def score_match(self, images, captions):
            return np.array([float(image) for image in images])

    calibration = calibrate_on_labels(
        Judge(),
        build_labels_of_decisions(decisions, scores, negatives),
        {name: str(score).encode() for name, score in score_of.items()},
        seed=3,
    )
    assert 0.5 < calibration.recall < 1.0
    assert {name: getattr(calibration, name) for name in SHARED} == {
        name: getattr(quality, name) for name in SHARED
    }
