"""How often each term stands in a text, of many texts: kept as numbers of terms, and counted when it is asked for."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from caramel.utils.arrays import Ints

BLOCK = 1 << 20  # terms that are numbered anew at a time


@dataclass(frozen=True)
class Terms:
    """Items as the numbers of their terms, one item after the other: four bytes a term.

    ``flat`` holds those of all items; item i has ``flat[ends[i - 1]:ends[i]]``. ``names`` are the terms, sorted.
    """

    flat: npt.NDArray[np.int32]
    ends: Ints
    names: list[str]

    @classmethod
    def from_items(cls, values: Sequence[Any], terms: Callable[[Any], list[str]]) -> Terms:
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
        for start in range(
            0, len(numbers), BLOCK
        ):  # in place: of millions of texts they are hundreds of megabytes
            part = numbers[start : start + BLOCK]
            part[:] = rank[part]
        return cls(numbers, np.array(ends, np.int64), names)

    def count_terms(self, which: Ints) -> Any:
        """Return how often each term stands in each of the items numbered in ``which``, (n, terms), sparse, as floats."""
        from scipy.sparse import csr_matrix

        lengths = np.diff(self.ends, prepend=0)[which]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shift = np.repeat(self.ends[which] - lengths - starts[:-1], lengths)
        term_ids = self.flat[shift + np.arange(starts[-1])]
        counts = csr_matrix((np.ones(len(term_ids)), term_ids, starts), shape=(len(which), len(self.names)))
        counts.sum_duplicates()
        return counts
