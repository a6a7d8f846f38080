"""Rows of negatives as scorers see them: captions, images and types, with equal texts in memory once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.blind.scorers import DECIMALS
from caramel.errors import DataError, format_items
from caramel.interfaces.scorer import Scorer
from caramel.schemas.stored import ColumnSource
from caramel.utils.arrays import Floats, Ints, find_indices, iter_texts
from caramel.utils.resampling import CrossValidation


class Texts(NamedTuple):
    """Texts of n rows that hold equal texts in memory once.

    Attributes:
        different: the distinct texts.
        number: (n,) index of each row's text in ``different``.
    """

    different: list[str]
    number: Ints

    @classmethod
    def from_column(cls, values: pd.Series[str]) -> Texts:
        """Return the texts of a column."""
        number, different = pd.factorize(values)
        return cls(different.tolist(), number)

    def take_rows(self, rows: Ints) -> list[str]:
        """Return the texts of the given rows."""
        return [self.different[i] for i in self.number[rows].tolist()]


class Rows(NamedTuple):
    """Negatives that are scored, followed by the negatives that scorers train on.

    Attributes:
        caption, image: caption and image of each pair.
        pair: (n,) index of each row's pair.
        negative: negative captions of the rows.
        types: types of the rows.
        judged: number of rows that are scored.
    """

    caption: Texts
    image: Texts
    pair: Ints
    negative: pd.Series[str]
    types: Texts
    judged: int

    @classmethod
    def from_tables(
        cls, pairs: pd.DataFrame, negatives: ColumnSource, train_only: pd.DataFrame | None
    ) -> Rows:
        """Return the rows of the tables.

        Raises:
            DataError: the pair of a negative is missing.
        """
        parts = [negatives] if train_only is None else [negatives, train_only]
        pair = [find_pairs(pairs, part) for part in parts]

        def join_column(name: str) -> pd.Series[str]:
            columns = [part[[name]][name] for part in parts]
            return columns[0] if train_only is None else pd.concat(columns, ignore_index=True)

        return cls(
            Texts.from_column(pairs["caption"]),
            Texts.from_column(pairs["image_id"]),
            np.concatenate(pair),
            join_column("negative_caption"),
            Texts.from_column(join_column("type")),
            len(pair[0]),
        )

    def score_rows(self, scorer: Scorer, folds: int, seed: int) -> Floats:
        """Return the scores of both sides of the scored rows, type by type. (2, n)."""
        train_only = np.arange(len(self.pair)) >= self.judged
        scores = np.full((2, len(self.pair)), np.nan)
        for type_number in np.unique(self.types.number[~train_only]):
            in_type = self.types.number == type_number
            here = np.flatnonzero(
                (in_type & ~train_only)
                | (in_type & train_only if (in_type & train_only).any() else train_only)
            )
            scores[:, here] = scorer(
                self.caption.take_rows(self.pair[here]),
                [*iter_texts(self.negative.iloc[here])],
                CrossValidation(
                    self.image.take_rows(self.pair[here]),
                    folds,
                    seed,
                    train_only[here] if train_only.any() else None,
                ),
            )
        return scores[:, ~train_only].round(DECIMALS)


def find_pairs(pairs: pd.DataFrame, negatives: ColumnSource) -> Ints:
    """Return the index of each negative's pair, (n,).

    Raises:
        DataError: the pair of a negative is missing.
    """
    pair = find_indices(negatives[["pair_id"]]["pair_id"], pairs["pair_id"])
    if (pair < 0).any():
        orphans = negatives[["negative_id"]]["negative_id"][pair < 0]
        raise DataError(
            f"{len(orphans)} of {len(pair)} negatives have no pair:\n{format_items([repr(n) for n in orphans])}\n"
            f"Rerun the stage that made the negatives."
        )
    return pair
