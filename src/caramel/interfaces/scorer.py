"""What a blind text scorer is, and how each is described."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from caramel.utils.arrays import Floats
from caramel.utils.resampling import CrossValidation


class Scorer(Protocol):
    """A blind scorer: it sees texts, never an image; a higher score looks more like a true caption."""

    def __call__(
        self,
        positives: Sequence[str],
        negatives: Sequence[str],
        cv: CrossValidation,
    ) -> tuple[Floats, Floats]:
        """Return the scores in [0, 1] of the positives (n,) and of the negatives (n,).

        Args:
            positives: n true captions.
            negatives: n hard negatives, one for each.
            cv: folds of images. What is learned for one fold is learned on the others.

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


def create_model_free_spec(name: str, help: str, scorer: Scorer, *, sees_both: bool = False) -> ScorerSpec:
    """Return the description of a scorer that is there without any model."""
    return ScorerSpec(name, help, lambda target: scorer, sees_both=sees_both)
