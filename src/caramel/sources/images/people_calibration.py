"""Calibrate a model judge of images on people's decisions: its threshold, precision and recall, cross-fitted.

The threshold of ``calibration.py`` separates captions from hard negatives of photographs. Here the truth is what people
said of the candidates themselves, so that precision and recall are those of the judge in their place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.sources.images.calibration import Interval
from caramel.sources.images.label_calibration import (
    calibrate_on_scores,
    label_candidates,
    select_best_unfitting,
)


class JudgeQuality(NamedTuple):
    """A threshold, and how a judge that accepts from it agrees with people; all shares in [0, 1].

    Attributes:
        threshold: threshold with the best balanced accuracy on all images.
        chosen, refused: images that people chose, and images of negatives for which they chose none.
        precision: share of accepted images that people chose; NaN if none is accepted.
        precision_interval: its 95 % interval (Wilson).
        recall: share of the chosen images that the judge accepts.
        recall_interval: its 95 % interval.
        specificity: share of the refused images that the judge refuses.
    """

    threshold: float
    chosen: int
    refused: int
    precision: float
    precision_interval: Interval
    recall: float
    recall_interval: Interval
    specificity: float


def calibrate_on_decisions(scores: pd.DataFrame, decisions: pd.DataFrame, *, seed: int) -> JudgeQuality:
    """Return the threshold and quality of a judge, as stage ``filter_images`` calibrates it on the same decisions.

    Which candidates count is said by ``label_candidates`` and ``calibrate_on_scores``.

    Args:
        scores: ``negative_id``, ``candidate``, ``image_id`` and ``score`` in [0, 1] of each candidate.
        decisions: table ``decisions`` of task ``choose``.
        seed: seed of the folds.

    Raises:
        DataError: too few images are chosen or refused, or a chosen candidate has no score.
    """
    scored = label_candidates(decisions, scores[scores["score"].notna()])
    calibration = calibrate_on_scores(scored, seed=seed)
    assert calibration.precision_interval is not None
    assert calibration.recall_interval is not None
    return JudgeQuality(
        threshold=calibration.threshold,
        chosen=int(scored["fits"].sum()),
        refused=len(select_best_unfitting(scored)),
        precision=calibration.precision if calibration.passed else np.nan,
        precision_interval=calibration.precision_interval if calibration.passed else (np.nan, np.nan),
        recall=calibration.recall,
        recall_interval=calibration.recall_interval,
        specificity=2 * calibration.balanced_accuracy - calibration.recall,
    )
