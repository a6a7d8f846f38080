"""Repair audit rows, reject unusable ones, and compute the gaps under blind scorers.

Audit rows are a table with one row per instance and the columns pair_id (unique), image_id, type, subtype, caption,
caption2 (or None) and negative_caption.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from caramel.blind.text.attack import load_attacker
from caramel.refine.adversarial import STAGE, TEXTS, Reasons, find_faults
from caramel.refine.mirrored_grid import UNIT
from caramel.sources.captions.formatting import format_caption
from caramel.utils.arrays import Ints
from caramel.utils.resampling import CrossValidation


def repair_rows(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows without faults, with formatted texts, and the other rows as table ``rejects``.

    A row with an unusable paraphrase is rejected as a whole. Among rows with equal texts and no other fault, the row
    with the smallest ``pair_id`` is kept.
    """
    repaired = rows.reset_index(drop=True)
    for name in TEXTS:
        repaired[name] = [format_caption(text) if isinstance(text, str) else None for text in rows[name]]
    of_pairs, of_rows, _ = find_faults(
        repaired[["pair_id", "image_id", "caption"]],
        repaired[["pair_id", "type", "subtype", "negative_caption"]].assign(negative_id=repaired["pair_id"]),
        repaired.loc[repaired["caption2"].notna(), ["pair_id", "caption2"]],
        whole_rows=True,
    )
    reasons = np.where(of_pairs != "", of_pairs, of_rows).astype(object)
    return repaired[reasons == ""].reset_index(drop=True), build_rejects(repaired, reasons)


def build_rejects(rows: pd.DataFrame, reasons: Reasons) -> pd.DataFrame:
    """Return the rows whose reason, one of (n,) texts, is not "", as table ``rejects``."""
    bad = reasons != ""
    dropped = rows[bad]
    columns = {
        "id": dropped["pair_id"],
        "stage": STAGE,
        "reason": reasons[bad],
        "text": dropped["negative_caption"],
    }
    return pd.DataFrame(columns).reset_index(drop=True)


def compute_row_gaps(rows: pd.DataFrame, scorers: Sequence[str], *, folds: int, seed: int) -> Ints:
    """Return the rows' gaps under the scorers: positive score minus negative score, in units of 1e-6. (n, k).

    Types are scored one by one, as in ``blind.scores.score_pairs``. If a row has a paraphrase, its positive score is
    the mean of the scores of caption and paraphrase (Dumpala et al. 2024).

    Raises:
        BackendError: a scorer is unknown.
    """
    second = rows["caption2"].notna().to_numpy()
    both = pd.concat([rows, rows[second].assign(caption=lambda r: r["caption2"])], ignore_index=True)
    all_gaps = np.zeros((len(both), len(scorers)))
    for column, scorer in enumerate(map(load_attacker, scorers)):
        for type_name in both["type"].unique():
            here = (both["type"] == type_name).to_numpy()
            true, false, groups = (
                both.loc[here, c].tolist() for c in ("caption", "negative_caption", "image_id")
            )
            positive, negative = scorer(true, false, CrossValidation(groups, folds, seed))
            all_gaps[here, column] = positive - negative
    gaps = all_gaps[: len(rows)].copy()
    gaps[second] = (gaps[second] + all_gaps[len(rows) :]) / 2
    units: Ints = np.rint(gaps * UNIT).astype(np.int64)
    return units
