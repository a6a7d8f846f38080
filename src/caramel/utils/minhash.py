"""Find texts that share most word pairs, by MinHash with locality-sensitive hashing.

The method is that of Broder (1997) and Indyk & Motwani (1998). Texts whose signatures agree in a whole band
are compared by the exact Jaccard similarity of their word pairs. So every reported pair is certain. The
probability of missing a pair is small, and the bands are chosen by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

MOST_PAIRS = 2_000_000  # pairs that are compared at a time
RECALL = 0.99  # share of the pairs at the threshold that share a band
Hashes = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shingles:
    """The distinct word pairs of n texts, as 64-bit hashes.

    Attributes:
        values: hashes of all texts, text by text.
        starts: index of the first hash of each text, and the end. (n + 1,). Every text has at least one.
    """

    values: Hashes
    starts: Ints


def build_shingles(texts: Sequence[Sequence[str]]) -> Shingles:
    """Return the distinct pairs of adjacent words of each text; for a single word, the word.

    Args:
        texts: words of each text; no text is empty.
    """
    words = [word for text in texts for word in text]
    hashed = pd.util.hash_array(np.array(words, dtype=object))
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    text_of = np.repeat(np.arange(len(texts)), lengths)
    last = np.cumsum(lengths) - 1
    following = np.append(hashed[1:], np.uint64(0))
    following[last] = 0
    # In a text of several words, the last one begins no pair.
    begins = np.ones(len(words), dtype=bool)
    begins[last[lengths > 1]] = False
    values, owners = _mix_bits(hashed + _mix_bits(following))[begins], text_of[begins]
    order = np.lexsort((values, owners))
    values, owners = values[order], owners[order]
    new = np.ones(len(values), dtype=bool)
    new[1:] = (values[1:] != values[:-1]) | (owners[1:] != owners[:-1])
    values, owners = values[new], owners[new]
    return Shingles(values, np.searchsorted(owners, np.arange(len(texts) + 1)))


def _mix_bits(values: Hashes) -> Hashes:
    """Return the values with their bits mixed: the finaliser of SplitMix64 (Steele et al. 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def choose_bands(threshold: float, permutations: int) -> tuple[int, int]:
    """Return the size and number of bands.

    The bands are the longest with which two texts at the threshold share one with probability ``RECALL``.

    With b bands of r values, texts with similarity s share one with probability 1 - (1 - s^r)^b.
    """
    for size in range(permutations, 1, -1):
        count = permutations // size
        if 1 - (1 - threshold**size) ** count >= RECALL:
            return size, count
    return 1, permutations


def hash_functions(count: int, seed: int) -> Hashes:
    """Return factors and summands of injective functions of 64 bits. (2, count)."""
    functions = np.random.default_rng(seed).integers(0, 2**64, (2, count), dtype=np.uint64)
    functions[0] |= 1  # multiplication by an odd number is injective
    return functions


def compute_signatures(shingle_sets: Shingles, functions: Hashes) -> Hashes:
    """Return the smallest value of each hash function over each text's shingles. (p, n).

    Args:
        shingle_sets: shingles of n texts.
        functions: factors and summands. (2, p).
    """
    least = np.empty((functions.shape[1], len(shingle_sets.starts) - 1), dtype=np.uint64)
    for index, (factor, summand) in enumerate(functions.T):
        least[index] = np.minimum.reduceat(shingle_sets.values * factor + summand, shingle_sets.starts[:-1])
    return least


def compute_band_keys(least: Hashes, size: int) -> Hashes:
    """Return a hash of each band of the signatures. (p, n) -> (p / size, n)."""
    count, texts = len(least) // size, least.shape[1]
    keys = np.repeat(np.arange(count, dtype=np.uint64)[:, None], texts, axis=1)
    for row in range(size):
        keys = _mix_bits(keys ^ least[row::size])
    return keys


class Index:
    """The band keys of n texts, sorted within each band, for looking up other texts."""

    def __init__(self, keys: Hashes) -> None:
        """Sort the keys. (bands, n)."""
        self.texts = np.argsort(keys, axis=1, kind="stable")
        self.keys = np.take_along_axis(keys, self.texts, axis=1)

    def iter_pairs(self, table: Hashes) -> Iterator[tuple[Ints, Ints]]:
        """Yield the indices (in this index, in the table) of texts that share a band, each pair once.

        A part has at most ``MOST_PAIRS`` pairs, unless one text alone has more.

        Args:
            table: band keys of m texts. (bands, m).
        """
        low, counts = self._find_keys(table)
        ends = np.cumsum(counts.sum(axis=0))
        start = 0
        while start < table.shape[1]:
            before = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + MOST_PAIRS, "right")))
            if ends[stop - 1] > before:
                yield self._expand_pairs(low[:, start:stop], counts[:, start:stop], start)
            start = stop

    def _find_keys(self, table: Hashes) -> tuple[Ints, Ints]:
        """Return the first position of each key in the sorted band, and its number of occurrences.

        (bands, m) each.
        """
        low, counts = (np.zeros(table.shape, dtype=np.int64) for _ in range(2))
        for band, keys in enumerate(table):
            sorted_keys = self.keys[band]
            low[band] = np.searchsorted(sorted_keys, keys)
            hits = np.flatnonzero(sorted_keys[low[band].clip(max=len(sorted_keys) - 1)] == keys)
            counts[band, hits] = np.searchsorted(sorted_keys, keys[hits], "right") - low[band, hits]
        return low, counts

    def _expand_pairs(self, low: Ints, counts: Ints, start: int) -> tuple[Ints, Ints]:
        """Return the pairs of some columns of the table, the first of them being ``start``."""
        band, column = np.nonzero(counts)
        many = counts[band, column]
        within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        text_ids = self.texts[np.repeat(band, many), np.repeat(low[band, column], many) + within]
        size = self.texts.shape[1]
        pairs = np.unique(np.repeat(start + column, many) * size + text_ids)
        return pairs % size, pairs // size


def compute_jaccard(
    ours: Shingles, theirs: Shingles, first_ids: Ints, second_ids: Ints
) -> npt.NDArray[np.float64]:
    """Return the exact Jaccard similarity of pairs of texts. (pairs,).

    Args:
        ours: shingles of one side.
        theirs: shingles of the other side.
        first_ids: indices of the pairs' first texts in ``ours``.
        second_ids: indices of the second texts in ``theirs``.
    """
    from scipy.sparse import csr_array

    known = np.unique(ours.values)
    position = np.searchsorted(known, theirs.values).clip(max=len(known) - 1)
    shared = known[position] == theirs.values
    ones = (np.ones(len(ours.values), np.int32), shared.astype(np.int32))
    columns = (np.searchsorted(known, ours.values), position)
    left, right = (
        csr_array((data, column, side.starts), shape=(len(side.starts) - 1, len(known)))
        for data, column, side in zip(ones, columns, (ours, theirs), strict=True)
    )
    common = (left[first_ids] * right[second_ids]).sum(axis=1)
    sizes = np.diff(ours.starts)[first_ids] + np.diff(theirs.starts)[second_ids]
    similarity: npt.NDArray[np.float64] = common / (sizes - common)
    return similarity
