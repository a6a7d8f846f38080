"""Select the best negatives of the tables ``negatives`` and ``pairs``, as TROHN-Img does (BiVLC, 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.blind.scored_rows import find_pairs
from caramel.blind.scores import SCORED
from caramel.interfaces.settings import Executor
from caramel.refine.adversarial import Reasons
from caramel.refine.selection import compute_cosines, find_reasons, score_rows
from caramel.refine.stored_tables import DecidedTable, write_decided_tables
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS

STAGE = "select_negatives"


def select_best_negatives(
    negatives: Path,
    pairs: Path,
    out: Path,
    *,
    scorers: Sequence[str],
    similarity: str | None,
    folds: int,
    executor: Executor,
    folder: Path,
    seed: int,
    **settings: Any,
) -> None:
    """Write the selected rows of table ``negatives``, in its order, and the other rows as table ``rejects``.

    Args:
        negatives: file of table ``negatives``.
        pairs: file of table ``pairs``.
        out: folder of negatives.parquet and rejects.parquet; not the folder of the given table.
        scorers: blind scorers, such as plausibility and acceptability.
        similarity: spec of a model that embeds texts; None: no cosine is computed.
        folds: number of folds of the cross-validation of scorers that learn.
        executor: how the scorers run, if there are several shards.
        folder: folder of finished shards, which are not scored again.
        seed: seed of shards, folds and the grid's sampling.
        settings: percentile, cell and within, as in ``selection.find_reasons``.

    Raises:
        DataError: a negative has no pair, or as in ``find_reasons``.
        BackendError: a scorer or the model is unknown, or cannot be loaded.
    """
    rows = read_audit_rows(negatives, pairs)
    cosines = None if similarity is None or rows.empty else compute_cosines(rows, similarity)
    positive, negative = score_rows(rows, scorers, folds=folds, seed=seed, folder=folder, executor=executor)
    reasons = find_reasons(
        rows, positive, negative, scorers=scorers, similarity=cosines, seed=seed, **settings
    )
    del rows, positive, negative
    write_selected(negatives, reasons, out)


def write_selected(negatives: Path, reasons: Reasons, out: Path) -> None:
    """Write the rows of a table ``negatives`` without a reason, and the others as table ``rejects``.

    Args:
        reasons: result of ``selection.find_reasons`` for ``read_audit_rows``. (n,).
    """
    decided = DecidedTable(NEGATIVES, negatives, reasons, "negative_id", "negative_caption")
    write_decided_tables([decided], out, stage=STAGE)


def read_audit_rows(negatives_path: Path, pairs_path: Path) -> pd.DataFrame:
    """Return a table ``negatives`` as audit rows: ``pair_id`` is the negative's id, and the rest is its pair's.

    ``image_id`` and ``caption`` are categorical: a pair has many negatives, and its texts are in memory once.

    Raises:
        DataError: a negative has no pair, or as in ``read_table``.
    """
    negatives = read_table(NEGATIVES, negatives_path, SCORED)
    pairs = read_table(PAIRS, pairs_path, ["pair_id", "image_id", "caption"])
    at = find_pairs(pairs, negatives)
    return pd.DataFrame(
        {
            "pair_id": negatives["negative_id"],
            **{
                name: pd.Series(pairs[name].astype("category").array.take(at), negatives.index)
                for name in ("image_id", "caption")
            },
            **{name: negatives[name] for name in ("type", "subtype", "negative_caption")},
            "caption2": None,
        }
    )
