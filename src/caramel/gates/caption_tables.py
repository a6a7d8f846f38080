"""Tables of the suites on captions: rows joined with their pair's caption, and with the gaps of blind scorers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from caramel.blind.scores import SCORED, score_by_scorer
from caramel.gates.blind_expectation import GAP
from caramel.schemas.stored import ColumnSource
from caramel.utils.arrays import BLOCK, Floats, TextIndex, find_indices

OF_PAIR = ("image_id", "caption")  # columns of table ``pairs`` that its negatives and its paraphrase get
MISSING_PAIR = "missing_pair"
OF_REJECTED = ", learned from rejected rows"  # suffix of a scorer's name


def build_judged_captions(
    pairs: ColumnSource,
    negatives: ColumnSource,
    scores: Iterable[pd.DataFrame],
    rejected: pd.DataFrame,
    *,
    exempt: Sequence[str],
    folds: int,
    seed: int,
) -> pd.DataFrame:
    """Return the negatives of the types that are not exempt, with captions and the gaps of every blind scorer.

    Each scorer has the gaps after training on the other folds. If there are rejected rows, it also has the gaps
    after training on these; see ``validate_captions``.
    """

    is_judged = ~negatives[["type"]]["type"].isin(list(exempt))

    def take_judged(names: list[str]) -> pd.DataFrame:
        """Return columns of the judged rows; all rows of only one column are in memory at a time."""
        return pd.DataFrame({name: negatives[[name]][name][is_judged] for name in names})

    ids = take_judged(["negative_id"])["negative_id"]
    columns = build_gap_columns(ids, scores)
    if len(rejected):
        names = [column.removesuffix(GAP) for column in columns]
        scored = score_by_scorer(
            pairs[["pair_id", "image_id", "caption"]],
            take_judged(SCORED),
            scorers=names,
            folds=folds,
            seed=seed,
            train_only=rejected,
        )
        columns |= build_gap_columns(
            ids, (part.assign(scorer=part["scorer"] + OF_REJECTED) for part in scored)
        )
    del ids
    return add_captions(take_judged(SCORED), pairs).assign(**columns)


@dataclass(frozen=True)
class RowsWithCaptions:
    """Rows that have a pair, with the columns of ``add_captions``. Columns are read when they are taken."""

    rows: ColumnSource
    pairs: ColumnSource

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [*self.rows.columns, *OF_PAIR, MISSING_PAIR]

    def __getitem__(self, names: list[str], /) -> pd.DataFrame:
        """Return the columns with these names."""
        stored = set(self.rows.columns)
        needed = [name for name in names if name in stored]
        added = [name for name in names if name not in stored]
        if not added:
            return self.rows[needed]
        return add_captions(self.rows[list(dict.fromkeys([*needed, "pair_id"]))], self.pairs, added)[names]


def add_captions(
    rows: pd.DataFrame, pairs: ColumnSource, names: Sequence[str] = (*OF_PAIR, MISSING_PAIR)
) -> pd.DataFrame:
    """Return the rows with their pair's ``caption`` and ``image_id``, and ``missing_pair``, or some of these.

    ``caption`` and ``image_id`` are categorical: a pair has many negatives, and its texts are in memory once.
    ``missing_pair`` is the row's ``pair_id`` if that pair is missing, else null.
    """
    at = find_indices(rows["pair_id"], pairs[["pair_id"]]["pair_id"])
    added: dict[str, Any] = {}
    for name in names:
        if name == MISSING_PAIR:
            added[name] = rows["pair_id"].where(at < 0)
            continue
        code, different = pd.factorize(pairs[[name]][name].to_numpy(object))
        added[name] = pd.Categorical.from_codes(np.append(code, -1)[at], pd.Index(different, dtype=object))
    return rows.assign(**added)


def add_score_gaps(rows: pd.DataFrame, scores: pd.DataFrame, *, exempt: Sequence[str]) -> pd.DataFrame:
    """Return the rows of the types that are not exempt, each with its gap under every blind scorer.

    A scorer NAME gives the column ``NAME_gap``: positive score minus negative score; NaN: not scored.
    """
    judged = rows[~rows["type"].isin(list(exempt))]
    return judged.assign(**build_gap_columns(judged["negative_id"], [scores]))


def build_gap_columns(names: pd.Series[str], scores: Iterable[pd.DataFrame]) -> dict[str, Floats]:
    """Return the columns that ``add_score_gaps`` adds for the negatives in ``names``, (n,) each.

    Args:
        names: n values of ``negative_id``.
        scores: table ``scores``, in any number of parts. A scorer's scores are all in one part.
    """
    columns = {}
    for part in scores:
        gaps = (part["positive_score"] - part["negative_score"]).to_numpy(np.float64)
        numbers, scorers = pd.factorize(part["scorer"], sort=True)
        for number, name in enumerate(scorers):
            here = numbers == number
            index = TextIndex(part["negative_id"] if here.all() else part["negative_id"][here])
            # In blocks: all names at a time would be copied to be compared.
            blocks = (names.iloc[start : start + BLOCK] for start in range(0, max(1, len(names)), BLOCK))
            at = np.concatenate([index.find_indices(block) for block in blocks])
            columns[f"{name}{GAP}"] = np.append(gaps[here], np.nan)[at]
    return columns
