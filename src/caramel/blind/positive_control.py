"""The positive control of the blind scorers: a shortcut that was planted must be found.

A scorer that finds nothing in a data set says something only if it finds what is there. So some negatives are copied, all get
the same odd end, and the scorers are asked again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from caramel.blind.scores import Accuracies, compute_blind_accuracy, score_pairs
from caramel.utils.hashing import compute_stable_keys

MARK = " and Quokka of 7 Zebras!"  # longer, with words, capitals, a digit and a last sign that no caption has
ROWS = 400  # that are copied, at most
PLANTED = "planted"  # the subset of the figures


def compute_positive_control(
    pairs: pd.DataFrame, negatives: pd.DataFrame, *, scorers: Sequence[str], folds: int, seed: int
) -> Accuracies:
    """Return what each scorer finds in a copy of some rows whose negatives all end alike: scorer -> ``planted`` -> figures.

    The figures are those of ``blind_accuracy``. All rows count as one type, so that a rare type is no smaller control.

    Args:
        pairs, negatives, scorers, folds, seed: as of ``score_pairs``.

    Raises:
        BackendError, DataError: as of ``score_pairs``.
    """
    order = np.argsort(compute_stable_keys(negatives["negative_id"], seed), kind="stable")[:ROWS]
    sample = negatives.iloc[order].reset_index(drop=True)
    marked = sample.assign(
        type=PLANTED, subtype=PLANTED, negative_caption=sample["negative_caption"].str.rstrip(" .") + MARK
    )
    scores = score_pairs(pairs, marked, scorers=scorers, folds=folds, seed=seed)
    accuracies = compute_blind_accuracy(scores, marked, pairs=pairs, folds=folds)
    return {name: {PLANTED: figures[PLANTED]} for name, figures in accuracies.items()}
