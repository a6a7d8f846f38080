"""Array types, and texts as numbers: indices of names, and codes that are equal for equal texts."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # the settings reach this module, and would import pandas for each command
    import pandas as pd

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BLOCK = 1 << 16  # texts
DIGEST = 16  # bytes


def find_indices(names: pd.Series[str], known: pd.Series[str]) -> Ints:
    """Return the index of each name among the known names, shape (n,).

    It is the first index if a known name is a duplicate, and −1 if the name is missing.

    This equals pandas' own look-up by an index, without a Python text for each of millions of names.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted, among = (pa.array(values, pa.large_string()) for values in (names, known))
    indices: Any = pc.index_in(wanted, value_set=among)
    return np.asarray(indices.fill_null(-1).to_numpy(), dtype=np.int64)


def iter_texts(values: pd.Series) -> Iterator[Any]:
    """Yield the values of a column as Python objects, of which one block is in memory at a time.

    Iterating over a column of Arrow takes ten times as long.
    """
    for start in range(0, len(values), BLOCK):
        yield from values.iloc[start : start + BLOCK].to_numpy(object)


def factorize_texts(texts: Iterable[str]) -> Ints:
    """Return a code for each text, equal for equal texts, from 0 in order of first occurrence. (n,).

    Texts are processed in blocks and distinguished by digests of 128 bits, so that only few of millions of
    generated texts are in memory at once. Digests are sorted: a hash table of them takes twice as much memory.
    """
    texts, parts = iter(texts), [np.empty((0, 2), np.uint64)]
    while block := list(itertools.islice(texts, BLOCK)):
        encoded = (text.encode("utf-8", "surrogatepass") for text in block)
        digests = b"".join(hashlib.blake2b(text, digest_size=DIGEST).digest() for text in encoded)
        parts.append(np.frombuffer(digests, np.uint64).reshape(-1, 2))
    low, high = np.concatenate(parts).T
    del parts
    order = np.lexsort((low, high))
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (np.diff(low[order]) != 0) | (np.diff(high[order]) != 0)
    first = order[is_new]  # the first occurrence, because the sort is stable
    code = np.empty(len(first), dtype=np.int64)
    code[np.argsort(first)] = np.arange(len(first))
    codes = np.empty(len(order), dtype=np.int64)
    codes[order] = code[np.cumsum(is_new) - 1]
    return codes


class TextIndex:
    """Looks up texts, part by part, among n known texts; see ``find_indices``, which builds its index for each call.

    It takes 16 bytes for each known text, where ``find_indices`` takes 100.
    """

    def __init__(self, known: pd.Series[str]) -> None:
        import pyarrow as pa

        self._known = pa.array(known, pa.large_string())
        hashes = _hash_texts(known)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def find_indices(self, names: pd.Series[str]) -> Ints:
        """Return the index of each name among the known texts, or −1: as ``find_indices`` does. (n,)."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted, hashes = pa.array(names, pa.large_string()), _hash_texts(names)
        indices, left = np.full(len(names), -1), np.arange(len(names))
        position = np.searchsorted(self._hashes, hashes)
        while True:  # once, unless different texts have the same hash
            inside = left[position[left] < len(self._hashes)]
            left = inside[self._hashes[position[inside]] == hashes[inside]]
            if not len(left):
                return indices
            candidates = self._order[position[left]]
            same: Any = pc.equal(self._known.take(pa.array(candidates)), wanted.take(pa.array(left)))
            is_same = np.asarray(same, dtype=np.bool_)
            indices[left[is_same]] = candidates[is_same]
            left = left[~is_same]
            position[left] += 1


def _hash_texts(texts: pd.Series[str]) -> Ints:
    """Return a hash of each text, equal for equal texts in this process. (n,)."""
    return np.fromiter(map(hash, iter_texts(texts)), np.int64, len(texts))
