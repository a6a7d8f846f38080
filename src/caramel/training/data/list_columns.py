"""The columns of a table ``training`` that hold lists, as arrays of all their values.

A list in Arrow takes about ten bytes for each text beside the text itself. As Python objects, a list and its texts take
hundreds, which is gigabytes for millions of negatives. Columns of Python lists are accepted, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from caramel.schemas.contracts import TEXTS
from caramel.utils.arrays import Ints

LISTS = ["negative_captions", "negative_image_ids", "subtypes"]  # parallel lists of the table ``training``


class FlatLists(NamedTuple):
    """The values of parallel lists, one after the other.

    Attributes:
        row: (N,) number of each value's row, ascending.
        values: N rows with the columns ``LISTS``.
    """

    row: Ints
    values: pa.Table


def flatten_lists(rows: pd.DataFrame) -> FlatLists:
    """Return the values of the columns ``LISTS``, whose lists must be equally long in each row."""
    lists = [_get_lists(rows, name) for name in LISTS]
    row = pc.list_parent_indices(lists[0]).to_numpy().astype(np.int64)
    return FlatLists(row, pa.table([pc.list_flatten(values) for values in lists], LISTS))


def count_listed(rows: pd.DataFrame, name: str) -> Ints:
    """Return the length of each list of a column; 0 where there is no list. (n,)."""
    lengths = pc.list_value_length(_get_lists(rows, name)).fill_null(0)
    return np.asarray(lengths.to_numpy(), dtype=np.int64)


def count_present(rows: pd.DataFrame, name: str) -> Ints:
    """Return the number of values of each list of a column that are not empty; 0 where there is no list. (n,)."""
    lists = _get_lists(rows, name)
    present = pc.list_parent_indices(lists).filter(pc.list_flatten(lists).is_valid())
    return np.bincount(present.to_numpy(), minlength=len(rows))


def _get_lists(rows: pd.DataFrame, name: str) -> pa.ChunkedArray:
    """Return a column of lists; those in Arrow are not copied."""
    return pa.table({name: pa.array(rows[name], TEXTS)}).column(name)
