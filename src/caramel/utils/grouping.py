"""Group rows that must be in the same fold: rows of one image, and rows with near-duplicate true captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.utils.arrays import Ints
from caramel.utils.minhash import (
    Hashes,
    build_shingles,
    choose_bands,
    compute_band_keys,
    compute_jaccard,
    compute_signatures,
    hash_functions,
)
from caramel.utils.text import extract_words

ALIKE = 0.6  # Jaccard similarity from which captions are near-duplicates: one word of ten differs
HASHES, SEED = 64, 0  # of the signatures; the exact similarity is checked afterwards
LARGEST, SMALL = 0.1, 10  # largest share and number of rows that one group may hold

NEAR, EXACT, IMAGE = "image and near-duplicate captions", "image and equal captions", "image"


class Grouping(NamedTuple):
    """Groups of rows that are not independent.

    Attributes:
        names: (n,) group of each row, named by the smallest image in it.
        by: what makes rows belong together.
    """

    names: list[str]
    by: str


def group_rows(rows: pd.DataFrame) -> Grouping:
    """Return the groups of audit rows: rows of an image, and rows with near-duplicate captions.

    Two captions are near-duplicates if the Jaccard similarity of their sets of word pairs is at least
    ``ALIKE``; see ``minhash``.

    If captions are made from few templates, everything is a near-duplicate of everything, and nothing is left
    to learn from. So if one group would hold more than ``LARGEST`` of the rows (and no image does), only
    equal captions are grouped. If that is still too much, only the rows of an image are.

    Args:
        rows: columns image_id, caption and caption2 (or None).
    """
    image = rows["image_id"].to_numpy(dtype=str)
    texts = [(i, t) for c in ("caption", "caption2") for i, t in enumerate(rows[c]) if isinstance(t, str)]
    owner = np.array([i for i, _ in texts], dtype=np.int64)
    words = [extract_words(text) for _, text in texts]
    names, number = np.unique(image, return_inverse=True)
    allowed = max(LARGEST * len(rows), SMALL, np.bincount(number).max(initial=0))
    _, same = np.unique(np.array([" ".join(w) for w in words], dtype=str), return_inverse=True)
    edges = np.stack([number[owner], len(names) + same])
    node_count = len(names) + int(same.max(initial=-1)) + 1
    distinct = np.unique(same, return_index=True)[1]
    near = find_near_duplicates([words[i] for i in distinct]) + len(names)
    for by, tie_edges in ((NEAR, np.hstack([edges, near])), (EXACT, edges)):
        label = _find_components(tie_edges, node_count)[: len(names)][number]
        if len(rows) == 0 or np.bincount(label).max() <= allowed:
            first = np.unique(label, return_index=True)[1]
            smallest = dict(zip(label[first].tolist(), image[first].tolist(), strict=True))
            for at, name in zip(label.tolist(), image.tolist(), strict=True):
                smallest[at] = min(smallest[at], name)
            return Grouping([smallest[at] for at in label.tolist()], by)
    return Grouping(image.tolist(), IMAGE)


def find_near_duplicates(texts: Sequence[Sequence[str]]) -> Ints:
    """Return pairs of indices of near-duplicate texts, given by their words. (2, m).

    In a bucket of many similar texts, each is compared only with the first and with the previous one.
    """
    full = np.array([i for i, words in enumerate(texts) if words], dtype=np.int64)
    if len(full) < 2:
        return np.zeros((2, 0), dtype=np.int64)
    shingle_sets = build_shingles([texts[i] for i in full.tolist()])
    size, count = choose_bands(ALIKE, HASHES)
    least = compute_signatures(shingle_sets, hash_functions(size * count, SEED))
    pairs = np.unique(
        np.hstack([_pair_bucket_members(keys) for keys in compute_band_keys(least, size)]), axis=1
    )
    alike = compute_jaccard(shingle_sets, shingle_sets, pairs[0], pairs[1]) >= ALIKE
    return np.asarray(full[pairs[:, alike]])


def _pair_bucket_members(keys: Hashes) -> Ints:
    """Return pairs of indices with the same key. (n,) -> (2, m)."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.r_[True, ordered[1:] != ordered[:-1]]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    at = np.flatnonzero(~begins)
    return np.hstack([np.stack([order[at - 1], order[at]]), np.stack([order[first[at]], order[at]])])


def merge_groups(*ties: Sequence[str] | Ints) -> list[str]:
    """Return the group of each of n rows, named by the smallest name of the first ties in it.

    Args:
        ties: first (n,) names; then (n,) or (m, n) arrays of any type. Rows that share a value are in one
            group.
    """
    first = np.array(ties[0], dtype=str)
    row, edges, nodes = np.arange(len(first)), [], len(first)
    for tie in ties:
        columns = np.atleast_2d(np.asarray(tie))
        number = np.unique(columns, return_inverse=True)[1].reshape(columns.shape)
        edges += [np.stack([row, nodes + column]) for column in number]
        nodes += int(number.max(initial=-1)) + 1
    label = _find_components(np.hstack(edges), nodes)[: len(first)]
    return pd.Series(first).groupby(label).transform("min").tolist()


def _find_components(edges: Ints, count: int) -> Ints:
    """Return the connected component of each of ``count`` nodes. (2, m) -> (count,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(edges.shape[1], dtype=np.int8), (edges[0], edges[1])), shape=(count, count))
    label: Ints = connected_components(graph, directed=False)[1].astype(np.int64)
    return label
