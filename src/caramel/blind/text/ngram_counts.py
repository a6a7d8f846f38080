"""Store the terms of many texts as integer ids, and count them on demand."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from caramel.utils.arrays import Bools, Ints

BLOCK = 1 << 20  # terms that are renumbered at a time


@dataclass(frozen=True)
class Terms:
    """Items as the ids of their terms, four bytes per term.

    Attributes:
        flat: ids of the terms of all items; item i has ``flat[ends[i - 1]:ends[i]]``.
        ends: end of each item in ``flat``.
        names: the terms, sorted; an id is an index into them.
    """

    flat: npt.NDArray[np.int32]
    ends: Ints
    names: list[str]

    @classmethod
    def from_items(cls, values: Sequence[Any], terms: Callable[[Any], Sequence[str]]) -> Terms:
        """Return the terms of the items."""
        number: dict[str, int] = {}
        flat, ends = array("i"), array("q")
        for value in values:
            flat.extend([number.setdefault(term, len(number)) for term in terms(value)])
            ends.append(len(flat))
        names = sorted(number)
        rank = np.empty(len(names), np.int32)
        rank[[number[name] for name in names]] = np.arange(len(names))
        numbers = np.frombuffer(flat, np.int32)
        # In place, because the ids of millions of texts take hundreds of megabytes.
        for start in range(0, len(numbers), BLOCK):
            part = numbers[start : start + BLOCK]
            part[:] = rank[part]
        return cls(numbers, np.array(ends, np.int64), names)

    def sort_ids(self) -> Terms:
        """Return the terms with the ids of each item in ascending order, for ``count_terms``, which sorts unsorted ids.

        The ids are sorted in place.
        """
        from scipy.sparse import csr_matrix

        starts = np.concatenate([[0], self.ends])
        ids = csr_matrix(
            (np.ones(len(self.flat), np.int8), self.flat, starts), shape=(len(self.ends), len(self.names))
        )
        ids.sort_indices()
        return Terms(ids.indices, self.ends, self.names)

    def select_ids(self, items: Bools) -> tuple[npt.NDArray[np.int32], Ints]:
        """Return the term ids of the items in a mask, one item after the other (m,), and their numbers of terms (k,)."""
        lengths = np.diff(self.ends, prepend=0)
        # All ids are not copied, because those of millions of texts take hundreds of megabytes.
        return self.flat if items.all() else self.flat[np.repeat(items, lengths)], lengths[items]

    def count_terms(self, which: Ints) -> Any:
        """Return the counts of all terms in the items with the indices ``which``, (n, terms), sparse, as floats."""
        from scipy.sparse import csr_matrix

        lengths = np.diff(self.ends, prepend=0)[which]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shift = np.repeat(self.ends[which] - lengths - starts[:-1], lengths)
        term_ids = self.flat[shift + np.arange(starts[-1])]
        counts = csr_matrix((np.ones(len(term_ids)), term_ids, starts), shape=(len(which), len(self.names)))
        counts.sum_duplicates()
        return counts
