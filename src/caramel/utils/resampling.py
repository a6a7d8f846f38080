"""How rows are resampled: in folds of whole groups, and by the bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from caramel.utils.arrays import Bools


@dataclass(frozen=True)
class CrossValidation:
    """In which folds n rows are scored, each by what was learned on the others.

    Attributes:
        groups: n names, of images or of clusters of rows: all rows of a group are in one fold.
        folds: number of folds, at least 2.
        seed: of folds and draws, at least 0.
        train_only: (n,) which rows are learned from and not scored: their scores mean nothing, and the others are
            scored and not learned from, see ``cross_validation.group_folds``. None: all are scored, and learned from
            for the other folds.
    """

    groups: Sequence[str]
    folds: int
    seed: int
    train_only: Bools | None = None


@dataclass(frozen=True)
class Bootstrap:
    """How the bootstrap of an interval draws.

    Attributes:
        n_bootstrap: number of resamples, at least 1.
        seed: of the draws, at least 0.
    """

    n_bootstrap: int
    seed: int
