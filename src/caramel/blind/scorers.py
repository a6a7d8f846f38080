"""What the blind text scorers share: their form, how each is described, and the range of their scores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from caramel.arrays import Floats, Ints
from caramel.errors import BackendError

DECIMALS = 6  # scores are rounded, so that another processor's last bits change no table


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


@dataclass(frozen=True)
class ScorerSpec:
    """What a blind scorer is called, how it is had, and what it needs.

    Attributes:
        name: as in a spec, ``NAME`` or ``NAME:TARGET``.
        help: what it looks at, in a line of `caramel audit --help`.
        load: target -> scorer; "" for one that needs no model.
        missing: target -> what keeps its model from being loaded, without loading it; None: it needs no model.
        cure: what to give where the model is missing.
        sees_both: unlike a ``Scorer`` it scores each text of a pair by the other one too, as whoever takes the
            test may: an attacker, and no scorer of texts.
    """

    name: str
    help: str
    load: Callable[[str], Scorer]
    missing: Callable[[str], list[str]] | None = None
    cure: str = ""
    sees_both: bool = False


def without_model(name: str, help: str, scorer: Scorer, *, sees_both: bool = False) -> ScorerSpec:
    """Return the description of a scorer that is there without any model."""
    return ScorerSpec(name, help, lambda target: scorer, sees_both=sees_both)


def checked(name: str, scorer: Scorer) -> Scorer:
    """Return the scorer; where it gives a text no number in [0, 1], it raises a BackendError instead."""

    @functools.wraps(scorer)
    def scored(
        positives: Sequence[str], negatives: Sequence[str], groups: Sequence[str], **settings: Any
    ) -> tuple[Floats, Floats]:
        found: Any = scorer(positives, negatives, groups, **settings)
        if not isinstance(found, tuple) or len(found) != 2:
            raise BackendError(f"Scorer {name!r} returns {found!r:.80}, not the scores of both sides.")
        return _in_range(name, positives, found[0]), _in_range(name, negatives, found[1])

    return scored


def _in_range(name: str, texts: Sequence[str], given: Any) -> Floats:
    """Return the scores of the texts, (n,), after a look at each.

    Raises:
        BackendError: one is not a number in [0, 1], or there are not as many as texts.
    """
    try:
        scores = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BackendError(f"Scorer {name!r} gives {given!r:.80}, not numbers: {error}.") from error
    if scores.shape != (len(texts),):
        raise BackendError(f"Scorer {name!r} gives scores of shape {scores.shape} for {len(texts)} texts.")
    wrong = np.flatnonzero(~((scores >= 0) & (scores <= 1)))
    if len(wrong):
        raise BackendError(
            f"Scorer {name!r} gives {scores[wrong[0]]} for the text {texts[wrong[0]]!r}, and no number in [0, 1] for "
            f"{len(wrong)} of {len(texts)} texts. Mend the scorer (`Scorer` in src/caramel/blind/scorers.py says "
            f"what it returns), or leave it out."
        )
    return scores


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
