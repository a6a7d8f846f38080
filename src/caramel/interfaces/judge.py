"""Interface of a judge, which scores how well an image matches a caption, and of its factory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pandas as pd

MatchScores = npt.NDArray[np.float64]


class Judge(Protocol):
    """Scores how well an image matches a caption. Deterministic."""

    name: str

    def score_match(self, images: Sequence[bytes], captions: Sequence[str]) -> MatchScores:
        """Return the match of image i and caption i, shape (n,): 1 is perfect, below 0.5 is no match.

        The images may not fit into memory together. Each is read on access. NaN: unknown; only people leave pairs
        unjudged.
        """
        ...

    def is_ambiguous(
        self, negative: MatchScores, positive: MatchScores, margin: float
    ) -> npt.NDArray[np.bool_]:
        """Return whether the positive caption is also true of the image, given both scores."""
        ...


@runtime_checkable
class DecisionJudge(Judge, Protocol):
    """Looks up what people decided.

    Attributes:
        decided: for each task, the items with a decision. Where one of them has no score, people judged it with other
            images or captions than the current ones.
    """

    decided: Mapping[str, Collection[str]]


@dataclass(frozen=True)
class JudgedImages:
    """The images that are to be judged, for a judge that looks them up.

    Attributes:
        annotations: folder with people's decisions.
        candidates, images, negatives, pairs: tables of those names; ``images`` is that of the candidates.
        source_images: table ``images`` of the pairs.
    """

    annotations: str
    candidates: pd.DataFrame
    images: pd.DataFrame
    negatives: pd.DataFrame
    pairs: pd.DataFrame
    source_images: pd.DataFrame


class JudgeFactory(Protocol):
    """Builds a judge. A judge that is not a model accepts and ignores the settings."""

    def __call__(
        self,
        *,
        checkpoint: str,
        device: str,
        allow_unmentioned_objects: bool,
        judged: JudgedImages | None = None,
        target: str = "",
    ) -> Judge:
        """Return the judge for a checkpoint folder, on a device: auto, cpu, cuda or cuda:N.

        With ``allow_unmentioned_objects`` a caption may omit objects of its image. ``target`` is that of a spec,
        NAME:TARGET, of a judge that is a model of its own.

        Raises:
            BackendError: the checkpoint is missing or broken, or the judge cannot judge other images than ``judged``.
        """
        ...
