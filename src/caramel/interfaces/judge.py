"""What a judge of a picture against a caption is, and what makes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

MatchScores = npt.NDArray[np.float64]


class Judge(Protocol):
    """Says how well a picture fits a caption. Deterministic."""

    name: str

    def score_match(self, images: Sequence[bytes], captions: Sequence[str]) -> MatchScores:
        """Return the fit of picture i and caption i, shape (n,); 1 is perfect, below 0.5 is no fit.

        Pictures may be more than fit into memory: each is read when it is asked for.
        """
        ...

    def is_ambiguous(
        self, negative: MatchScores, positive: MatchScores, margin: float
    ) -> npt.NDArray[np.bool_]:
        """Return whether the positive caption is true of the picture as well, from both fits."""
        ...


class JudgeFactory(Protocol):
    """Makes a judge; one that is no model takes and ignores the settings."""

    def __call__(self, *, checkpoint: str, device: str, allow_unmentioned_objects: bool) -> Judge:
        """Return the judge over a checkpoint folder, on a device: auto, cpu, cuda or cuda:N.

        With ``further_objects`` a caption may leave out objects that its picture shows.

        Raises:
            BackendError: the checkpoint is missing or broken.
        """
        ...
