"""What the blind text scorers share: their form, their folds, and how they see a text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DECIMALS = 6  # scores are rounded, so that another processor's last bits change no table

_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


class Scorer(Protocol):
    """A blind scorer: it sees texts, never an image; a higher score looks more like a true caption."""

    def __call__(
        self,
        positives: Sequence[str],
        negatives: Sequence[str],
        groups: Sequence[str],
        *,
        folds: int,
        seed: int,
    ) -> tuple[Floats, Floats]:
        """Return the scores in [0, 1] of the positives (n,) and of the negatives (n,).

        Args:
            positives: n true captions.
            negatives: n hard negatives, one for each.
            groups: n image names. What is learned for one fold is learned on the others, and all
                rows of an image are in one fold.
            folds: number of folds.
            seed: of folds and draws.

        The order of the rows changes nothing.
        """
        ...


def stable_keys(names: Sequence[str], seed: int) -> npt.NDArray[np.uint64]:
    """Return one random 64-bit number per name: a function of name and seed, not of position. (n,)."""
    digests = (hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def assign_folds(groups: Sequence[str], *, folds: int, seed: int) -> Ints:
    """Return the fold of each row, in [0, folds). (n,).

    Groups are dealt out evenly, in a random order that depends on the seed and their names alone.
    Fewer groups than folds have a fold each; a single one has nothing to learn from.
    """
    names = sorted(set(groups))
    order = np.argsort(stable_keys(names, seed), kind="stable")
    place = {names[i]: rank % folds for rank, i in enumerate(order.tolist())}
    return np.array([place[group] for group in groups], dtype=np.int64)


def tokens(text: str) -> list[str]:
    """Return the lower-case words and punctuation marks of a text."""
    return _TOKEN.findall(text.lower())


def words_only(text: str) -> tuple[str, ...]:
    """Return the lower-case words: what is left of a text up to case, space and punctuation."""
    return tuple(token for token in tokens(text) if token[0].isalnum())


def places(positives: Sequence[str], negatives: Sequence[str]) -> tuple[list[str], Ints]:
    """Return the distinct texts, sorted, and where each side's texts stand among them. (2, n)."""
    texts = sorted({*positives, *negatives})
    number = {text: i for i, text in enumerate(texts)}
    sides = np.array([[number[t] for t in side] for side in (positives, negatives)], dtype=np.int64)
    return texts, sides


def share_below(values: Floats) -> Floats:
    """Return the share of values below each, equal ones counted half. (n,) -> (n,), in (0, 1).

    This maps any score to [0, 1], evenly spread and in the same order. Values are rounded first.
    """
    values = np.round(values, DECIMALS)
    ordered = np.sort(values)
    twice = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    shares: Floats = np.round(twice / (2 * len(values)), DECIMALS)
    return shares
