"""Random draws that depend on names and a seed, and not on any order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from caramel.utils.arrays import Ints


def compute_stable_keys(names: Iterable[str], seed: int) -> npt.NDArray[np.uint64]:
    """Return one random 64-bit number per name: a function of name and seed, not of position. (n,)."""
    digests = (hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest() for name in names)
    return np.fromiter((int.from_bytes(digest, "little") for digest in digests), np.uint64)


def assign_folds(groups: Sequence[str], *, folds: int, seed: int) -> Ints:
    """Return the fold of each row, in [0, folds). (n,).

    Groups are distributed evenly, in a random order that depends only on the seed and their names. If there
    are fewer groups than folds, each group is its own fold. A single group leaves nothing to learn from.
    """
    names = sorted(set(groups))
    order = np.argsort(compute_stable_keys(names, seed), kind="stable")
    fold_of = {names[i]: rank % folds for rank, i in enumerate(order.tolist())}
    return np.array([fold_of[group] for group in groups], dtype=np.int64)
