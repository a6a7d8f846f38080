"""Rows to train on: a pair with all its negatives, or one row for each negative, as TROHN-Text and TROHN-Img have.

Unit ``pairs``: each pair is a row. Unit ``negatives``: there is a row for each negative that the method can use. Methods
that use several negatives of a row, or draw one at each visit, have a row for each pair that has a negative; methods without
negatives have one for every pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import pandas as pd

from caramel.interfaces.method import Method
from caramel.training.data.list_columns import LISTS, count_present
from caramel.utils.arrays import Bools

Unit = Literal["pairs", "negatives"]


def select_usable_rows(rows: pd.DataFrame, method: Method) -> pd.DataFrame:
    """Return the rows that have a negative, with an image if the method uses images; all if it uses no negatives."""
    return rows[find_usable_rows(rows, method)] if method.negatives else rows


def find_usable_rows(rows: pd.DataFrame, method: Method) -> Bools:
    """Return which rows ``select_usable_rows`` returns. (n,)."""
    if not method.negatives:
        return np.ones(len(rows), np.bool_)
    return count_present(rows, get_needed_list(method)) > 0


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
        """Return the number of rows that a method trains on."""
        if unit == "pairs" or not method.negatives:
            return self.pairs
        if has_row_per_negative(method, unit):
            return self.images if method.images else self.negatives
        return self.with_image if method.images else self.with_negative


def get_needed_list(method: Method) -> str:
    """Return the column of lists whose values a method that uses negatives needs."""
    return "negative_image_ids" if method.images else "negative_captions"


def has_row_per_negative(method: Method, unit: Unit) -> bool:
    """Return whether each negative is a row; otherwise each pair is one."""
    return unit == "negatives" and method.negatives == 1 and not method.drawn
