"""People as judge of images: look up what they decided about each image and caption.

Task ``choose`` decides which candidate fits the negative caption best, or none (BiVLC 3.1, step 3). Task ``fits`` then
decides whether the positive caption fits only the positive image (step 4): an image is ambiguous if people decided
anything else, or did not agree. A decision holds for the images and captions that people saw: on others, under the same
names, it counts as undecided.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.annotation.agreement.decision_files import find_outdated, read_decisions
from caramel.annotation.content import hash_candidates, hash_judged
from caramel.errors import BackendError
from caramel.interfaces.judge import JudgedImages, MatchScores

NAME = "people"
Fits = dict[tuple[str, str], float]  # SHA-256 of an image and a caption -> 1 or 0


class PeopleJudge:
    """What people decided: fit is 1 or 0, and NaN where they have not decided."""

    name = NAME

    def __init__(self, fits: Fits, decided: Mapping[str, Collection[str]]) -> None:
        """Store the fit of each image, by its SHA-256, and caption; and the items with a decision, by task."""
        self._fits, self.decided = fits, decided

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
    of_choose, of_fits = (decisions[decisions["task"] == task] for task in ("choose", "fits"))
    rows = _join_captions(judged)
    fits = _look_up_choices(rows, judged, of_choose)
    for key, fit in _look_up_verdicts(rows, of_fits).items():
        fits[key] = max(fits.get(key, 0.0), fit)
    return PeopleJudge(fits, {"choose": set(of_choose["item_id"]), "fits": set(of_fits["item_id"])})


def list_judged_contents(judged: JudgedImages) -> frozenset[tuple[str, str, str]]:
    """Return task, item and content of all that people can be asked about the images: other decisions are outdated."""
    of_choose = hash_candidates(judged.candidates, judged.images)
    rows = _join_captions(judged)
    of_fits = (
        (row["negative_id"], hash_judged([row["caption"]], (row["positive_sha256"], row["sha256"])))
        for row in rows[rows["positive_sha256"].notna()].to_dict("records")
    )
    return frozenset(
        (task, item, content)
        for task, contents in (("choose", of_choose.items()), ("fits", of_fits))
        for item, content in contents
    )


def _join_captions(judged: JudgedImages) -> pd.DataFrame:
    """Return the candidates with both captions, ``sha256`` of their image, and ``positive_sha256`` of the positive one.

    The positive image is drawn or not.
    """
    rows = judged.candidates.merge(
        judged.negatives[["negative_id", "pair_id", "negative_caption"]], on="negative_id"
    ).merge(
        judged.pairs[["pair_id", "caption", "image_id"]].rename(columns={"image_id": "source_image_id"}),
        on="pair_id",
    )
    drawn, source = (
        dict(zip(images["image_id"], images["sha256"], strict=True))
        for images in (judged.images, judged.source_images)
    )
    positive = rows["positive_image_id"].map(drawn).fillna(rows["source_image_id"].map(source))
    return rows.assign(sha256=rows["image_id"].map(drawn), positive_sha256=positive)


def _look_up_choices(rows: pd.DataFrame, judged: JudgedImages, decisions: pd.DataFrame) -> Fits:
    """Return the fit of each candidate to its negative caption.

    If images are equal, the one that people chose counts. A tie is no choice.
    """
    outdated = find_outdated(decisions, hash_candidates(judged.candidates, judged.images))
    current = decisions[~decisions["item_id"].isin(outdated)].set_index("item_id")["decision"]
    of_people = rows[rows["negative_id"].isin(current.index)]
    fits: Fits = {}
    for row in of_people.to_dict("records"):
        key = (row["sha256"], row["negative_caption"])
        is_chosen = current[row["negative_id"]] == str(row["candidate"])
        fits[key] = max(fits.get(key, 0.0), float(is_chosen))
    return fits


def _look_up_verdicts(rows: pd.DataFrame, decisions: pd.DataFrame) -> Fits:
    """Return the fit of images to positive captions, for the candidates that people saw beside the positive image.

    A tie is no positive image alone. Several candidates may have an equal image, such as one positive image: it fits if
    people said so of one of them.
    """
    by_item = decisions.set_index("item_id")[["decision", "content"]]
    fits: Fits = {}
    of_people = rows[rows["negative_id"].isin(by_item.index) & rows["positive_sha256"].notna()]
    for row in of_people.to_dict("records"):
        caption, images = row["caption"], (row["positive_sha256"], row["sha256"])
        decision, content = by_item.loc[row["negative_id"]]
        if content == hash_judged([caption], images):
            verdicts = {row["sha256"]: decision != "positive"}
            if isinstance(row["positive_image_id"], str):
                verdicts[row["positive_sha256"]] = decision in ("positive", "both")
            for sha256, is_fitting in verdicts.items():
                fits[sha256, caption] = max(fits.get((sha256, caption), 0.0), float(is_fitting))
    return fits
