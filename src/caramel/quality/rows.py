"""Refinement of audit rows: their format, their gaps under blind scorers, and what is rejected.

Audit rows are a table of one row per instance: pair_id (unique), image_id, type, subtype, caption, caption2 (or
None) and negative_caption.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from caramel.captions.formatting import format_caption
from caramel.quality.blind import Ints
from caramel.quality.refine import STAGE, TEXTS, Reasons, find_faults, score_gaps
from caramel.quality.scores import score_pairs

SECOND = "\n2"  # ending of a pair's name where its paraphrase stands for the caption


def repair(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows with formatted texts and without faults, and the others as table ``rejects``.

    A row whose paraphrase is of no use is rejected whole. Of rows with equal texts the smallest pair_id stays.
    """
    texts = {c: [format_caption(t) if isinstance(t, str) else None for t in rows[c]] for c in TEXTS}
    found = rows.assign(**texts).reset_index(drop=True)
    second = found.loc[found["caption2"].notna(), ["pair_id", "caption2"]]
    _, of_rows, of_second = find_faults(
        found[["pair_id", "image_id", "caption"]],
        found[["pair_id", "type", "subtype", "negative_caption"]].assign(negative_id=found["pair_id"]),
        second,
    )
    reasons = of_rows.copy()
    of_paraphrase = pd.Series(of_second, index=second.index, dtype=object)
    for row, reason in of_paraphrase[of_paraphrase != ""].items():
        reasons[row] = reasons[row] or f"paraphrase: {reason}"
    return found[reasons == ""].reset_index(drop=True), rejected(found, reasons)


def rejected(rows: pd.DataFrame, reasons: Reasons) -> pd.DataFrame:
    """Return the rows whose reason, one of (n,) texts, is not empty, as table ``rejects``."""
    bad = reasons != ""
    found = rows.loc[bad, ["pair_id", "negative_caption"]].set_axis(["id", "text"], axis=1)
    found = found.assign(stage=STAGE, reason=reasons[bad]).reset_index(drop=True)
    return found[["id", "stage", "reason", "text"]]


def row_gaps(rows: pd.DataFrame, scorers: Sequence[str], *, folds: int, seed: int) -> Ints:
    """Return the rows' gaps under the scorers, positive less negative score, in units of 1e-6. (n, k).

    With a paraphrase the positive's score is the mean of both captions' (Dumpala et al. 2024).
    """
    second = rows["caption2"].notna().to_numpy()
    again = rows[second].assign(caption=lambda r: r["caption2"], pair_id=lambda r: r["pair_id"] + SECOND)
    both = pd.concat([rows, again], ignore_index=True)
    negatives = both[["pair_id", "type", "subtype", "negative_caption"]].assign(negative_id=both["pair_id"])
    pairs = both[["pair_id", "image_id", "caption"]]
    scores = score_pairs(pairs, negatives, scorers=scorers, folds=folds, seed=seed)
    found = score_gaps(scores, negatives["negative_id"], scorers)
    assert found is not None
    gaps = found[: len(rows)].copy()
    gaps[second] = np.rint((gaps[second] + found[len(rows) :]) / 2).astype(np.int64)
    return gaps
