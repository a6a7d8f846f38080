"""The hard negatives of training rows: which ones a method may use, and the row of each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from caramel.interfaces.method import Method
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.contracts import TEXT
from caramel.training.data.list_columns import LISTS, FlatLists, flatten_lists
from caramel.training.data.row_units import Unit, has_row_per_negative
from caramel.utils.arrays import Ints


def list_negatives(rows: pd.DataFrame, method: Method, unit: Unit) -> tuple[pd.DataFrame, FlatLists]:
    """Return the pairs to train on, without their lists, and the negatives that the method may use.

    With unit ``negatives``, pairs without a negative are left out if the method uses negatives.
    """
    pairs = rows.drop(columns=LISTS, errors="ignore")
    if not method.negatives:
        return pairs, FlatLists(
            np.empty(0, np.int64), pa.schema([(name, TEXT) for name in LISTS]).empty_table()
        )
    row, values = flatten_lists(rows)
    usable = values.column("negative_captions").is_valid().to_numpy()
    if method.images:
        usable = usable & values.column("negative_image_ids").is_valid().to_numpy()
    if not (method.drawn or has_row_per_negative(method, unit)):
        before = np.cumsum(usable) - usable  # negatives of this row and of those above
        first = np.searchsorted(row, row)
        usable = usable & (before - before[first] < method.negatives)
    if not usable.all():
        row, values = row[usable], values.filter(pa.array(usable))
    if unit == "negatives":
        has = np.bincount(row, minlength=len(rows)) > 0
        pairs, row = pairs[has], (np.cumsum(has) - 1)[row]
    return pairs, FlatLists(row, values)


def build_separate_rows(pairs: pd.DataFrame, negatives: FlatLists) -> pd.DataFrame:
    """Return a row for each negative, with its image and its caption in place of those of its pair."""
    return pairs.iloc[negatives.row].assign(
        image_id=negatives.values.column("negative_image_ids").to_pandas().array,
        caption=negatives.values.column("negative_captions").to_pandas().array,
    )


def number_subtypes(subtypes: pa.ChunkedArray) -> Ints:
    """Return the index of each subtype in ``SUBTYPES``; -1: unknown."""
    numbers = pc.index_in(subtypes, value_set=pa.array(SUBTYPES, TEXT)).fill_null(-1)
    return np.asarray(numbers.to_numpy(), np.int64)


def draw_other_rows(rows: int, seed: int) -> Ints:
    """Return another row for each row, no row twice: the next one in a random cycle of all rows."""
    circle = np.random.default_rng(seed).permutation(rows)
    others = np.empty(rows, np.int64)
    others[circle] = np.roll(circle, 1)
    return others


def build_negative_positions(row_of: Ints, rows: int) -> Ints:
    """Return the positions of each row's negatives, (rows, most), -1 where a row has fewer.

    ``row_of`` is the row of each negative, ascending.
    """
    counts = np.bincount(row_of, minlength=rows)
    within = np.arange(len(row_of)) - np.repeat(np.cumsum(counts) - counts, counts)
    out = np.full((rows, int(counts.max())), -1, np.int64)
    out[row_of, within] = np.arange(len(row_of))
    return out
