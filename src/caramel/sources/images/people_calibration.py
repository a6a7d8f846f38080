"""Calibrate a model judge of images on people's decisions: its threshold, precision and recall, cross-fitted.

The threshold of ``calibration.py`` separates captions from hard negatives of photographs. Here the truth is what people
said of the candidates themselves, so that precision and recall are those of the judge in their place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.sources.images.calibration import select_threshold
from caramel.utils.hashing import assign_folds
from caramel.utils.stats import wilson_interval

FOLDS = 5
LEAST = (
    30  # negatives of each kind, with a chosen image and with none; with fewer, a threshold would be a guess
)
Interval = tuple[float, float]


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
    """Return the threshold and quality of a judge, each fold of negatives under the threshold of the other folds.

    An image that people chose fits. If they chose none, no image of that negative fits; one of these counts, the one
    that the judge scores highest, because a filter would keep that one. Images that lost to a better one say nothing
    and are left out, and so are ties.

    Args:
        scores: ``negative_id``, ``candidate`` and ``score`` in [0, 1] of each candidate.
        decisions: table ``decisions`` of task ``choose``.
        seed: seed of the folds.

    Raises:
        DataError: fewer than ``LEAST`` images are chosen or refused, or a chosen candidate has no score.
    """
    decided = decisions.set_index("item_id")["decision"].dropna()
    rows = scores[scores["negative_id"].isin(decided.index) & scores["score"].notna()].copy()
    rows["decision"] = rows["negative_id"].map(decided)
    chosen = rows[rows["decision"] == rows["candidate"].astype(str)]
    of_none = rows[rows["decision"] == "none"]
    refused = of_none.sort_values(["negative_id", "score"], ascending=[True, False]).drop_duplicates(
        "negative_id"
    )
    unknown = int((decided != "none").sum()) - len(chosen)
    if unknown:
        raise DataError(
            f"{unknown} of the chosen candidates have no score of the judge. The decisions are on other candidates: give "
            f"the table of the run from which the items were made."
        )
    if min(len(chosen), len(refused)) < LEAST:
        raise DataError(
            f"A judge cannot be calibrated on {len(chosen)} chosen and {len(refused)} refused images: at least {LEAST} of "
            f"each are needed. Have more items judged."
        )
    right, wrong = chosen["score"].to_numpy(float), refused["score"].to_numpy(float)
    fold = np.array(assign_folds([*chosen["negative_id"], *refused["negative_id"]], folds=FOLDS, seed=seed))
    of_right, of_wrong = fold[: len(right)], fold[len(right) :]
    accepted, passed = np.zeros(len(right), bool), np.zeros(len(wrong), bool)
    for one in range(FOLDS):
        threshold = select_threshold(right[of_right != one], wrong[of_wrong != one]).threshold
        accepted[of_right == one] = right[of_right == one] >= threshold
        passed[of_wrong == one] = wrong[of_wrong == one] >= threshold
    hits, total = int(accepted.sum()), int(accepted.sum() + passed.sum())
    precision, recall = hits / total if total else np.nan, float(accepted.mean())
    return JudgeQuality(
        threshold=select_threshold(right, wrong).threshold,
        chosen=len(right),
        refused=len(wrong),
        precision=precision,
        precision_interval=_compute_interval(precision, total),
        recall=recall,
        recall_interval=_compute_interval(recall, len(right)),
        specificity=1 - float(passed.mean()),
    )


def _compute_interval(share: float, n: int) -> Interval:
    if not n:
        return np.nan, np.nan
    low, high = wilson_interval(share, n)
    return float(low), float(high)
