"""Array types, and texts as numbers: indices of names, and codes that are equal for equal texts."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
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
    generated texts are in memory at once.
    """
    import pyarrow as pa

    texts, digest = iter(texts), pa.binary(DIGEST)
    parts = [pa.array([], digest)]
    while block := list(itertools.islice(texts, BLOCK)):
        encoded = (text.encode("utf-8", "surrogatepass") for text in block)
        digests = [hashlib.blake2b(text, digest_size=DIGEST).digest() for text in encoded]
        parts.append(pa.array(digests, digest))
    dictionary: Any = pa.chunked_array(parts).combine_chunks().dictionary_encode()
    return np.asarray(dictionary.indices.to_numpy(), dtype=np.int64)
