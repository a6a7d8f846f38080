"""People as judge of images: look up what they decided about each image and caption.

Task ``choose`` decides which candidate fits the negative caption best, or none (BiVLC 3.1, step 3). Task ``fits`` then
decides whether the positive caption fits only the positive image (step 4): an image is ambiguous if people decided
anything else, or did not agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from caramel.annotation.agreement.decision_files import read_decisions
from caramel.errors import BackendError
from caramel.interfaces.judge import JudgedImages, MatchScores

NAME = "people"
Decided = dict[str, str | None]  # item -> decision; None: undecided


class PeopleJudge:
    """What people decided: fit is 1 or 0, and NaN where they have not decided."""

    name = NAME

    def __init__(self, fits: dict[tuple[str, str], float]) -> None:
        """Store the fit of each image, by its SHA-256, and caption."""
        self._fits = fits

    def score_match(self, images: Sequence[bytes], captions: Sequence[str]) -> MatchScores:
        """Return 1 where people chose the image for the caption, 0 where they did not, NaN where they were not asked."""
        keys = [hashlib.sha256(data).hexdigest() for data in images]
        return np.array([self._fits.get(key, np.nan) for key in zip(keys, captions, strict=True)], np.float64)

    def is_ambiguous(
        self, negative: MatchScores, positive: MatchScores, margin: float
    ) -> npt.NDArray[np.bool_]:
        """Return where the positive caption is true as well; people need no margin."""
        return positive >= 0.5


def load_people_judge(*, judged: JudgedImages | None = None, **unused: object) -> PeopleJudge:
    """Return the judge of the decisions in a folder, on the images of ``judged``.

    Raises:
        BackendError: no images are given: people cannot judge new ones.
        DataError: the folder has no decisions.
    """
    if judged is None:
        raise BackendError(
            "Judge 'people' knows only images that people have seen, and cannot choose the generator's settings. Give one "
            "value each for synthesize.grid.guidance and synthesize.grid.steps, or set filter_images.judge to a model."
        )
    decisions = read_decisions(judged.annotations, "choose", "fits")
    decided: dict[str, Decided] = {"choose": {}, "fits": {}}
    for task, item, decision in zip(
        decisions["task"], decisions["item_id"], decisions["decision"], strict=True
    ):
        decided[task][item] = decision if isinstance(decision, str) else None
    return PeopleJudge(_build_fits(judged, decided["choose"], decided["fits"]))


def _build_fits(judged: JudgedImages, choices: Decided, verdicts: Decided) -> dict[tuple[str, str], float]:
    """Return the fit of each image and caption that people decided on.

    If images are equal, the one that people chose counts. A tie of task ``choose`` is no choice, and one of task
    ``fits`` is no positive image alone. Where task ``choose`` was not asked, the decision of task ``fits`` holds for
    each candidate, because another judge chose which one people saw.
    """
    sha = dict(zip(judged.images["image_id"], judged.images["sha256"], strict=True))
    rows = judged.candidates.merge(
        judged.negatives[["negative_id", "pair_id", "negative_caption"]], on="negative_id"
    ).merge(judged.pairs[["pair_id", "caption"]], on="pair_id")
    fits: dict[tuple[str, str], float] = {}

    def add(image_id: str, caption: str, is_match: bool) -> None:
        key = (sha[image_id], caption)
        fits[key] = max(fits.get(key, 0.0), float(is_match))

    columns = ["negative_id", "candidate", "image_id", "positive_image_id", "negative_caption", "caption"]
    for negative, candidate, image_id, positive_image_id, negative_caption, caption in (
        rows[columns].astype(object).itertuples(index=False, name=None)
    ):
        was_shown = True
        if negative in choices:
            was_shown = choices[negative] == str(candidate)
            add(image_id, negative_caption, was_shown)
        if was_shown and negative in verdicts:
            add(image_id, caption, verdicts[negative] != "positive")
            if isinstance(positive_image_id, str):
                add(positive_image_id, caption, verdicts[negative] in ("positive", "both"))
    return fits
