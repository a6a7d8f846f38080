"""Rows to train on: a pair with all its negatives, or one row for each negative, as TROHN-Text and TROHN-Img have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import pandas as pd

from caramel.interfaces.method import Method
from caramel.training.data.list_columns import LISTS, build_lists_of_one, count_present, flatten_lists

Unit = Literal["pairs", "negatives"]


def select_usable_rows(rows: pd.DataFrame, method: Method) -> pd.DataFrame:
    """Return the rows that have a negative, with an image if the method uses images; all if it uses no negatives."""
    if not method.negatives:
        return rows
    return rows[count_present(rows, _get_column(method)) > 0]


def build_method_rows(rows: pd.DataFrame, method: Method, unit: Unit) -> pd.DataFrame:
    """Return the rows of a ``training`` table that a method trains on.

    Args:
        rows: table ``training``.
        method: the method, with its number of negatives.
        unit: ``pairs``: all rows as they are. ``negatives``: a row for each negative that the method can use. Methods
            that use several negatives of a row, or draw one at each visit, get each pair that has a negative; methods
            without negatives get every pair.
    """
    if unit == "pairs":
        return rows
    usable = select_usable_rows(rows, method)
    if method.negatives != 1 or method.drawn:
        return usable
    row, values = flatten_lists(usable)
    present = values.column(_get_column(method)).is_valid()
    single: pd.DataFrame = usable.drop(columns=LISTS).iloc[row[present.to_numpy()]].reset_index(drop=True)
    return single.join(build_lists_of_one(values.filter(present))).reindex(columns=rows.columns)


@dataclass(frozen=True)
class RowCounts:
    """Numbers of pairs and negatives of a ``training`` table, from which the number of rows of each method follows.

    Attributes:
        pairs: pairs.
        with_negative, with_image: pairs that have a negative, and one with an image.
        negatives, images: negatives, and those with an image.
    """

    pairs: int
    with_negative: int
    with_image: int
    negatives: int
    images: int

    @classmethod
    def from_rows(cls, rows: pd.DataFrame) -> Self:
        """Return the numbers of a table."""
        negatives, images = (count_present(rows, name) for name in LISTS[:2])
        return cls(
            len(rows),
            int((negatives > 0).sum()),
            int((images > 0).sum()),
            int(negatives.sum()),
            int(images.sum()),
        )

    def count(self, method: Method, unit: Unit) -> int:
        """Return the number of rows of ``build_method_rows``."""
        if unit == "pairs" or not method.negatives:
            return self.pairs
        if method.negatives != 1 or method.drawn:
            return self.with_image if method.images else self.with_negative
        return self.images if method.images else self.negatives


def _get_column(method: Method) -> str:
    return "negative_image_ids" if method.images else "negative_captions"
