"""Run the positive control of the blind scorers: they must find a planted shortcut.

That a scorer finds no shortcut in a data set is evidence only if it finds shortcuts that exist. So some
negatives are copied, all copies get the same odd ending, and the scorers score the copies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from caramel.blind.blind_accuracy import Accuracies, compute_blind_accuracy
from caramel.blind.scores import SCORED, score_pairs
from caramel.schemas.stored import ColumnSource
from caramel.utils.hashing import compute_stable_keys

MARK = " and Quokka of 7 Zebras!"  # longer; words, capitals, a digit and a last character that no caption has
ROWS = 400  # rows that are copied, at most
PLANTED = "planted"  # name of the subset in the figures


def compute_positive_control(
    pairs: pd.DataFrame, negatives: ColumnSource, *, scorers: Sequence[str], folds: int, seed: int
) -> Accuracies:
    """Return each scorer's figures on copied rows whose negatives all end alike: scorer -> ``planted`` -> figures.

    The figures are those of ``compute_blind_accuracy``. All rows count as one type, so that a rare type does
    not make the control smaller.

    Args:
        pairs, negatives, scorers, folds, seed: see ``write_scores``.

    Raises:
        BackendError, DataError: see ``score_pairs``.
    """
    names = negatives[["negative_id"]]["negative_id"]
    order = np.argsort(compute_stable_keys(names, seed), kind="stable")[:ROWS]
    sample = negatives[SCORED].iloc[order].reset_index(drop=True)
    marked = sample.assign(
        type=PLANTED, subtype=PLANTED, negative_caption=sample["negative_caption"].str.rstrip(" .") + MARK
    )
    scores = score_pairs(pairs, marked, scorers=scorers, folds=folds, seed=seed)
    accuracies = compute_blind_accuracy(scores, marked, pairs=pairs, folds=folds)
    return {name: {PLANTED: figures[PLANTED]} for name, figures in accuracies.items()}
