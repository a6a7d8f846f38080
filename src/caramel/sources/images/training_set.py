"""Build the training set: a row for each pair, with lists of its negatives.

The lists are Arrow's, and rows are built in parts: as Python lists, millions of negatives would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from caramel.schemas.io import GROUP, build_frame, read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.training import TRAINING
from caramel.utils.arrays import Ints, find_indices

LARGE_TEXT = pa.large_string()  # pandas' own form: no copy


def iter_training_parts(
    pairs: pd.DataFrame, negatives: str | Path, drawn: pd.DataFrame, *, of_all_pairs: bool
) -> Iterator[pd.DataFrame]:
    """Return the training set in parts of ``GROUP`` rows: each row lists its negatives with an image first, then the others.

    Both are sorted by name. Rows are sorted by their first negative, and those without a negative by their pair.

    Args:
        pairs: one row per pair to train on, with the columns of table ``training`` but for the lists.
        negatives: path of table ``negatives``.
        drawn: columns ``instance_id``, a negative, and ``negative_image_id``, its image.
        of_all_pairs: whether the pairs are most of those in the table, so that it is not searched for their negatives.
    """
    only = None if of_all_pairs else ("pair_id", set(pairs["pair_id"]))
    names = read_table(NEGATIVES, negatives, ["negative_id", "pair_id"], only)
    order, at_image, counts = _sort_negatives(names, pairs, drawn["instance_id"])
    starts = np.cumsum(counts) - counts
    first = np.full(len(pairs), -1)
    first[counts > 0] = order[starts[counts > 0]]
    first_names = _take_values(_to_arrow(names["negative_id"]), first)
    by_first = pc.sort_indices(pc.coalesce(first_names, _to_arrow(pairs["pair_id"]))).to_numpy()
    del names, first, first_names
    texts = read_table(NEGATIVES, negatives, ["negative_caption", "subtype"], only)
    subtypes = _to_arrow(texts.pop("subtype")).dictionary_encode()
    captions, images = _to_arrow(texts.pop("negative_caption")), _to_arrow(drawn["negative_image_id"])
    for start in range(0, len(pairs), GROUP):
        part = by_first[start : start + GROUP]
        ends = np.cumsum(counts[part])
        index = order[np.repeat(starts[part] + counts[part] - ends, counts[part]) + np.arange(ends[-1])]
        lists = {
            "negative_captions": _take_values(captions, index),
            "negative_image_ids": _take_values(images, at_image[index]),
            "subtypes": _take_values(subtypes, index).cast(LARGE_TEXT),
        }
        offsets = pa.array(np.append(0, ends), pa.int32())
        rows = pairs.iloc[part].reset_index(drop=True)
        yield build_frame(
            TRAINING, rows.assign(**{name: _build_lists(offsets, values) for name, values in lists.items()})
        )


def _sort_negatives(
    names: pd.DataFrame, pairs: pd.DataFrame, drawn: pd.Series[str]
) -> tuple[Ints, Ints, Ints]:
    """Return the order of the negatives that have a pair, their index among those drawn, and each pair's number of them.

    The negatives of a pair come together, those that were drawn first, each part sorted by name.

    Args:
        names: n rows with the columns ``negative_id`` and ``pair_id``.
        pairs: the pairs.
        drawn: names of the negatives that were drawn.

    Returns (m,) row numbers, (n,) index of each negative, -1 for those that were not drawn, and (pairs,) numbers.
    """
    pair = find_indices(names["pair_id"], pairs["pair_id"])
    at_image = find_indices(names["negative_id"], drawn)
    by_name = pc.sort_indices(_to_arrow(names["negative_id"])).to_numpy().astype(np.int64)
    by_name = by_name[pair[by_name] >= 0]
    order = by_name[np.lexsort((at_image[by_name] < 0, pair[by_name]))]
    return order, at_image, np.bincount(pair[order], minlength=len(pairs))


def _to_arrow(texts: pd.Series[str]) -> pa.Array:
    """Return the texts as one array, from which any are taken quickly."""
    return pa.table({"text": pa.array(texts, LARGE_TEXT)}).column("text").combine_chunks()


def _take_values(values: pa.Array, index: Ints) -> pa.Array:
    """Return the values at the indices; -1: the value is missing."""
    return values.take(pa.array(index, mask=index < 0))


def _build_lists(offsets: pa.Array, values: pa.Array) -> pd.Series:
    """Return a list for each row."""
    return pd.Series(pa.ListArray.from_arrays(offsets, values), dtype=pd.ArrowDtype(pa.list_(LARGE_TEXT)))
