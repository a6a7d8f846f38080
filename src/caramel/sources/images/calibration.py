"""From which fit on a judge is believed: chosen on pairs known to fit and on their own hard negatives.

The scale of an image–text model is its own: a cosine of 0.2 is a good fit to one and a bad one to
another. So the threshold is measured, on captions that no training of the judge saw. What it must tell apart is what its
candidates are of, an image's caption and its hard negative: another image's caption is so much easier that the threshold would
be too low, and what it reaches far above what it reaches on candidates.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.io.image_store import LazySequence
from caramel.utils.arrays import Bools, Ints
from caramel.utils.hashing import assign_folds

if TYPE_CHECKING:
    from caramel.interfaces.judge import Judge, MatchScores

SPLIT = "val"  # the base is trained on train, and nothing is chosen on test
LEAST = 30  # images; with fewer, a threshold would be a guess
MOST = 2000  # images, drawn at random; more make it no surer
DIGITS = 6  # fits and shares are rounded, so that another processor's last bits change nothing


FOLDS = 5  # of images: what a threshold reaches is counted on those that had no part in choosing it


class Calibration(NamedTuple):
    """A threshold, and what thresholds so chosen reach on other images' captions and hard negatives, each in [0, 1]."""

    threshold: float
    images: int
    precision: float
    recall: float
    balanced_accuracy: float


def calibrate_threshold(
    judge: Judge, pairs: pd.DataFrame, negatives: pd.DataFrame, images: Mapping[str, bytes], *, seed: int
) -> Calibration:
    """Return the threshold with the best balanced accuracy on pairs of the val split and their hard negatives.

    Each image stands once with a caption of its own, which fits, and once with that pair's hard negative, which does not.
    Thresholds are the middles between neighbouring fits; of equally good ones the highest is taken. What it reaches is
    cross-fitted: on each of ``FOLDS`` parts of the images by the threshold of the others.

    Args:
        judge: whose fits are looked at.
        pairs: table ``pairs``.
        negatives: table ``negatives``, of these pairs or more.
        images: encoded files by image_id.
        seed: of the draw of captions, and of the folds.

    Raises:
        DataError: there are fewer than ``LEAST`` images to look at.
    """
    at_hand = pairs["image_id"].map(images.__contains__).astype(bool)
    known = pairs[(pairs["split"] == SPLIT) & at_hand].merge(
        _sample_one_per_group(negatives, "negative_id", "pair_id", seed)[["pair_id", "negative_caption"]],
        on="pair_id",
    )
    calibration_pairs = _sample_one_per_group(known, "pair_id", "image_id", seed).head(MOST)
    _check_image_count(len(calibration_pairs))
    paired_images = LazySequence(
        images.__getitem__, [*calibration_pairs["image_id"], *calibration_pairs["image_id"]]
    )
    scores = judge.score_match(
        paired_images, [*calibration_pairs["caption"], *calibration_pairs["negative_caption"]]
    )
    fold = assign_folds(calibration_pairs["image_id"].tolist(), folds=FOLDS, seed=seed)
    return compute_cross_fitted_threshold(
        scores[: len(calibration_pairs)], scores[len(calibration_pairs) :], fold
    )


def check_enough(pairs: pd.DataFrame) -> None:
    """Say that a threshold cannot be calibrated before hours went into what it is for.

    Raises:
        DataError: there are fewer than ``LEAST`` images of the val split.
    """
    _check_image_count(pairs.loc[pairs["split"] == SPLIT, "image_id"].nunique())


def can_calibrate(pairs: pd.DataFrame, negatives: pd.DataFrame) -> bool:
    """Return whether as many images of the val split as are needed have a pair with a hard negative."""
    known = pairs[(pairs["split"] == SPLIT) & pairs["pair_id"].isin(negatives["pair_id"])]
    return int(known["image_id"].nunique()) >= LEAST


def _check_image_count(images: int) -> None:
    if images < LEAST:
        raise DataError(
            f"A judge's threshold cannot be calibrated on {images} images of the {SPLIT} split with a hard negative: {LEAST} are "
            f"needed. Give more images, a larger share in scenes.val_test_frac, or a number in "
            f"filter_images.faithfulness_threshold."
        )


def _sample_one_per_group(rows: pd.DataFrame, name: str, of: str, seed: int) -> pd.DataFrame:
    """Return one row for each value of column ``of``, in an order drawn by the rows' names, column ``name``."""
    draw = rows[name].map(lambda text: zlib.crc32(f"{seed}:{text}".encode()))
    drawn = rows.assign(draw=draw).sort_values(["draw", name])
    return drawn.drop_duplicates(of).reset_index(drop=True)


def compute_cross_fitted_threshold(fitting: MatchScores, unfitting: MatchScores, fold: Ints) -> Calibration:
    """Return the best threshold of all, (n,) and (n,), and what those of the other folds reach on each fold, (n,)."""
    passed = np.zeros((2, len(fold)), dtype=bool)
    for one in np.unique(fold):
        here = fold == one
        threshold = select_threshold(fitting[~here], unfitting[~here]).threshold
        passed[:, here] = fitting[here] >= threshold, unfitting[here] >= threshold
    whole = select_threshold(fitting, unfitting)
    return _compute_calibration(whole.threshold, passed[0], passed[1])


def select_threshold(fitting: MatchScores, unfitting: MatchScores) -> Calibration:
    """Return the threshold that tells the two best, (n,) and (n,), and what it reaches on these themselves."""
    values = np.unique(np.concatenate([fitting, unfitting]))
    middles = np.round((values[1:] + values[:-1]) / 2, DIGITS)
    candidates = [
        _compute_calibration(float(t), fitting >= t, unfitting >= t)
        for t in np.unique([0.0, *middles]).tolist()
    ]
    return max(candidates, key=lambda c: (c.balanced_accuracy, c.threshold))


def _compute_calibration(threshold: float, right: Bools, wrong: Bools) -> Calibration:
    """Return what is reached where these of the pairs that fit pass, and these of those that do not. (n,), (n,)."""
    recall, passed = float(right.mean()), float(wrong.mean())
    precision = recall / (recall + passed) if recall + passed else 0.0
    shares = (precision, recall, (recall + 1 - passed) / 2)
    return Calibration(threshold, len(right), *(round(share, DIGITS) for share in shares))
