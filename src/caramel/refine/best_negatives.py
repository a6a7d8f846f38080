"""Select the best negatives of the tables ``negatives`` and ``pairs``, as TROHN-Img does (BiVLC, 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.blind.scores import require_pairs
from caramel.interfaces.settings import Executor
from caramel.refine.selection import Selection, compute_cosines, score_rows, select_negatives
from caramel.utils.arrays import find_indices

STAGE = "select_negatives"


def select_best_negatives(
    negatives: pd.DataFrame,
    pairs: pd.DataFrame,
    *,
    scorers: Sequence[str],
    similarity: str | None,
    folds: int,
    executor: Executor,
    folder: Path,
    seed: int,
    **settings: Any,
) -> Selection:
    """Return the selected rows of table ``negatives``, in its order, and the other rows as table ``rejects``.

    Args:
        negatives: table ``negatives``.
        pairs: columns pair_id, image_id and caption of table ``pairs``.
        scorers: blind scorers, such as plausibility and acceptability.
        similarity: spec of a model that embeds texts; None: no cosine is computed.
        folds: number of folds of the cross-validation of scorers that learn.
        executor: how the scorers run, if there are several shards.
        folder: folder of finished shards, which are not scored again.
        seed: seed of shards, folds and the grid's sampling.
        settings: percentile, cell and within, as in ``selection.select_negatives``.

    Raises:
        DataError: a negative has no pair, or as in ``select_negatives``.
        BackendError: a scorer or the model is unknown, or cannot be loaded.
    """
    rows = build_rows(negatives, pairs)
    cosines = None if similarity is None or rows.empty else compute_cosines(rows, similarity)
    positive, negative = score_rows(rows, scorers, folds=folds, seed=seed, folder=folder, executor=executor)
    selected = select_negatives(
        rows, positive, negative, scorers=scorers, similarity=cosines, seed=seed, **settings
    )
    keep_mask = find_indices(negatives["negative_id"], selected.rows["pair_id"]) >= 0
    return Selection(negatives[keep_mask].reset_index(drop=True), selected.rejects.assign(stage=STAGE))


def build_rows(negatives: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the negatives as audit rows: ``pair_id`` is the negative's id, and the caption and image are its pair's."""
    require_pairs(pairs, negatives)
    at = find_indices(negatives["pair_id"], pairs["pair_id"])
    return pd.DataFrame(
        {
            "pair_id": negatives["negative_id"],
            **{
                name: pd.Series(pairs[name].array.take(at), negatives.index)
                for name in ("image_id", "caption")
            },
            **{name: negatives[name] for name in ("type", "subtype", "negative_caption")},
            "caption2": None,
        }
    )
