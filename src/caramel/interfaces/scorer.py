"""Interface of a blind text scorer, and its description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from caramel.utils.arrays import Floats
from caramel.utils.resampling import CrossValidation


class Scorer(Protocol):
    """A blind scorer. It sees only texts, never an image. A higher score looks more like a true caption."""

    def __call__(
        self,
        positives: Sequence[str],
        negatives: Sequence[str],
        cv: CrossValidation,
    ) -> tuple[Floats, Floats]:
        """Return the scores in [0, 1] of the positives (n,) and of the negatives (n,).

        The order of the rows has no effect.

        Args:
            positives: n true captions.
            negatives: n hard negatives, one for each.
            cv: folds of images. What is learned for one fold is learned on the others.

        The order of the rows changes nothing.
        """
        ...


@dataclass(frozen=True)
class ScorerSpec:
    """Name, loader and requirements of a blind scorer.

    Attributes:
        name: name in a spec, ``NAME`` or ``NAME:TARGET``.
        help: what it uses, in a line of `caramel audit --help`.
        load: target -> scorer; "" for a scorer that needs no model.
        missing: target -> reasons why its model cannot be loaded, without loading it; None: it needs no
            model.
        cure: what to provide if the model is missing.
        sees_both: unlike a ``Scorer``, its score of a text also depends on the other text of the pair, as for
            anyone who takes the test. It is an attacker, not a scorer of single texts.
    """

    name: str
    help: str
    load: Callable[[str], Scorer]
    missing: Callable[[str], list[str]] | None = None
    cure: str = ""
    sees_both: bool = False


def create_model_free_spec(name: str, help: str, scorer: Scorer, *, sees_both: bool = False) -> ScorerSpec:
    """Return the description of a scorer that needs no model."""
    return ScorerSpec(name, help, lambda target: scorer, sees_both=sees_both)
