"""Score a task with a blind model, which sees only captions, so that no image can change a score.

A blind scorer gets pairs of a true and a false caption and learns across folds of images. Instances are scored
stratum by stratum, because an attacker can tell the type of a negative. The stratum is the instance's type
(replace, swap, add) if one of its subsets is a type, as in ``blind.scores``, and else its first subset.

A scorer that sees both captions gives the gap of a pair. Scores are derived from it as follows:

- Comparisons: the negative has the score ``UNDECIDED``. Each true caption has ``UNDECIDED`` plus its gap to the
  negative.
- Rankings: all true candidates have the score ``UNDECIDED``. Each false candidate has ``UNDECIDED`` minus its gap to
  the best true one, so that it ranks above all true ones if it beats them all.

All images have the same score under a blind model. So a choice among images is always a tie, which counts as a
miss, and an instance with two images is never right in both directions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from caramel.evaluation.scores.ranking import COLUMNS
from caramel.interfaces.benchmark import ABSENT, Comparisons, Index, Rankings, Task
from caramel.interfaces.model import BlindModel, Floats
from caramel.schemas.columns import TYPES

UNDECIDED = 0.5  # score of a caption that is compared with no other
MOST_PAIRS = 2_000_000  # largest number of pairs of a true and a false candidate in one stratum


def compute_blind_columns(task: Task, model: BlindModel) -> dict[str, Floats]:
    """Return the score columns of table ``similarities`` for each row of the task.

    Columns for similarities of two texts are left out, because a blind scorer does not compare texts.
    """
    return _score_comparisons(task, model) if isinstance(task, Comparisons) else _score_rankings(task, model)


@dataclass
class _CaptionPairs:
    """Pairs of a true and a false caption of an image that are scored together."""

    positives: list[str] = field(default_factory=list)
    negatives: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)

    def add_pair(self, positive: str, negative: str, group: str) -> None:
        """Add a pair of a true and a false caption."""
        self.positives.append(positive)
        self.negatives.append(negative)
        self.groups.append(group)

    def compute_scores(self, model: BlindModel) -> dict[tuple[str, str], float]:
        """Return (image, caption) -> score; a caption of an image has the same score in all pairs."""
        if not self.groups:
            return {}
        caption_scores: dict[tuple[str, str], float] = {}
        true, false = model.score_texts(self.positives, self.negatives, self.groups)
        for texts, values in ((self.positives, true), (self.negatives, false)):
            for group, text, value in zip(self.groups, texts, values.tolist(), strict=True):
                assert caption_scores.setdefault((group, text), value) == value
        return caption_scores

    def compute_gaps(self, model: BlindModel) -> dict[tuple[str, str, str], float]:
        """Return (image, true caption, false caption) -> score of the true caption minus score of the false one."""
        if not self.groups:
            return {}
        true, false = model.score_texts(self.positives, self.negatives, self.groups)
        contests = zip(self.groups, self.positives, self.negatives, strict=True)
        return dict(zip(contests, (true - false).tolist(), strict=True))


def _iter_strata(rows: pd.DataFrame) -> Iterator[Index]:
    """Yield the row positions of each stratum."""
    names = np.array([_find_stratum(subsets) for subsets in rows["subsets"]], dtype=object)
    for name in dict.fromkeys(names.tolist()):
        yield np.flatnonzero(names == name)


def _find_stratum(subsets: Sequence[str]) -> str:
    """Return the type among the subsets, else the first subset, else an empty text."""
    types = [name for name in subsets if name in TYPES]
    return str([*types, *subsets, ""][0])


def _score_comparisons(task: Comparisons, model: BlindModel) -> dict[str, Floats]:
    """Return the score columns of comparisons; a caption has the same score for both images."""
    names = {"c0": "caption", "c1": "negative_caption", "c2": "caption2"}
    captions = {n: [t if isinstance(t, str) else None for t in task.rows[c]] for n, c in names.items()}
    images: list[str] = task.rows["image_id"].tolist()
    scores = {name: np.full(len(images), np.nan) for name in captions}
    for row_index in _iter_strata(task.rows):
        contests = _CaptionPairs()
        for i, true in itertools.product(row_index.tolist(), ("c0", "c2")):
            caption, negative = captions[true][i], captions["c1"][i]
            if caption is not None and negative is not None:
                contests.add_pair(caption, negative, images[i])
        gaps = contests.compute_gaps(model) if model.sees_both else {}
        caption_scores = {} if model.sees_both else contests.compute_scores(model)
        for name, texts in captions.items():
            for i in row_index.tolist():
                text, negative = texts[i], captions["c1"][i]
                if text is not None:
                    gap = gaps.get((images[i], text, negative or ""), 0.0)
                    scores[name][i] = caption_scores.get((images[i], text), UNDECIDED + gap)
    return {
        f"s_{caption}_i{i}": np.where(task.rows[image] != ABSENT, scores[caption], np.nan)
        for i, image in enumerate(("image", "negative_image"))
        for caption in (("c0", "c1", "c2") if i == 0 else ("c0", "c1"))
    }


def _score_rankings(task: Rankings, model: BlindModel) -> dict[str, Floats]:
    """Return the rank columns of rankings.

    Every true candidate of an image is paired with every false one. If a text consists of several prompts, the first
    is used. If a stratum would have more than ``MOST_PAIRS`` pairs, as in retrieval from thousands of captions, its
    rows get no score: such pools hold no negatives made for the image, and a text alone does not show which
    candidate is true.
    """
    rows = task.rows
    sizes = np.array([len(task.pools[pool]) for pool in rows["pool"]], np.int64)
    true = rows["true"].map(len).to_numpy(np.int64)
    to_image = (rows["direction"] == "t2i").to_numpy()
    columns = np.full((len(rows), len(COLUMNS)), np.nan)
    same = np.full(len(rows), UNDECIDED)
    other = np.where(sizes > true, UNDECIDED, -np.inf)
    tied = np.stack([same, other, np.zeros(len(rows)), sizes - true], axis=1)
    columns[to_image, :-1] = tied[to_image]
    columns[:, -1] = sizes
    texts = [prompts[0] for prompts in task.texts]
    for at in _iter_strata(rows[~to_image]):
        row_index = np.flatnonzero(~to_image)[at]
        if (true * (sizes - true))[row_index].sum() <= MOST_PAIRS:
            columns[row_index, :-1] = _compute_ranks(rows.iloc[row_index], task.pools, texts, model)
    return dict(zip(COLUMNS, columns.T, strict=True))


def _compute_ranks(
    rows: pd.DataFrame, pools: Sequence[Index], texts: Sequence[str], model: BlindModel
) -> Floats:
    """Return all rank columns but ``n_candidates`` for one stratum of image queries."""
    sides = [
        (image, list(true), np.setdiff1d(pools[pool], true).tolist())
        for image, pool, true in zip(rows["image_id"], rows["pool"], rows["true"], strict=True)
    ]
    contests = _CaptionPairs()
    for image, true, false in sides:
        for t, f in itertools.product(true, false):
            contests.add_pair(texts[t], texts[f], image)
    gaps = contests.compute_gaps(model) if model.sees_both else {}
    scores = {} if model.sees_both else contests.compute_scores(model)
    ranks = []
    for image, true, false in sides:
        best = max(scores.get((image, texts[t]), UNDECIDED) for t in true)
        if model.sees_both:
            nearest = [max(gaps[image, texts[t], texts[f]] for t in true) for f in false]
            others = UNDECIDED - np.array(nearest)
        else:
            others = np.array([scores[image, texts[f]] for f in false])
        ranks.append((best, others.max(initial=-np.inf), (others > best).sum(), (others == best).sum()))
    return np.array(ranks, float)
