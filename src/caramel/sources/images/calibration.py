"""Calibrate a judge's threshold on images with their captions and with their hard negatives.

Each image–text model has its own scale: a cosine of 0.2 is a good fit for one model and a bad fit for another. The
threshold is therefore measured, on captions that the judge did not see in training.

The threshold must separate what the candidates require: an image's caption and its hard negative. With captions of
other images, which are much easier, the threshold would be too low, and its accuracy would be far above the accuracy
on candidates.
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
from caramel.utils.stats import wilson_interval

if TYPE_CHECKING:
    from caramel.interfaces.judge import Judge, MatchScores

SPLIT = "val"  # the base is trained on train, and nothing is selected on test
LEAST = 30  # minimum number of images; with fewer, a threshold would be a guess
MOST = 2000  # maximum number of images, drawn at random; more do not make it more certain
DIGITS = 6  # fits and shares are rounded, so that the last bits of another processor change nothing


FOLDS = 5  # folds of images: a threshold is evaluated on images that had no part in its choice


Interval = tuple[float, float]


class Calibration(NamedTuple):
    """A threshold, the number of images, and cross-fitted figures on captions and hard negatives.

    All values but ``images`` are in [0, 1]. Each figure is measured on images that had no part in choosing the
    threshold. ``passed`` is the yield: the share of all pairs that pass, half of which fit. Intervals are Wilson's,
    of 95 %.
    """

    threshold: float
    images: int
    precision: float
    recall: float
    balanced_accuracy: float
    passed: float | None = None
    precision_interval: Interval | None = None
    recall_interval: Interval | None = None
    passed_interval: Interval | None = None


def calibrate_threshold(
    judge: Judge, pairs: pd.DataFrame, negatives: pd.DataFrame, images: Mapping[str, bytes], *, seed: int
) -> Calibration:
    """Return the threshold with the best balanced accuracy on pairs of the val split and their hard negatives.

    Each image occurs twice: with one of its captions, which fits, and with a hard negative of that pair, which does
    not fit. The candidate thresholds are the midpoints between neighbouring fits; among equally good thresholds the
    highest is chosen. The figures are cross-fitted: each of ``FOLDS`` folds of images is evaluated with the threshold
    of the other folds.

    Args:
        judge: the judge to calibrate.
        pairs: table ``pairs``.
        negatives: table ``negatives`` of at least these pairs.
        images: encoded files by image_id.
        seed: seed of the draw of captions, and of the folds.

    Raises:
        DataError: there are fewer than ``LEAST`` usable images.
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
    """Check that a threshold can be calibrated, before hours are spent on drawing candidates.

    Raises:
        DataError: there are fewer than ``LEAST`` images of the val split.
    """
    _check_image_count(pairs.loc[pairs["split"] == SPLIT, "image_id"].nunique())


def can_calibrate(pairs: pd.DataFrame, negatives: pd.DataFrame) -> bool:
    """Return whether enough images of the val split have a pair with a hard negative."""
    known = pairs[(pairs["split"] == SPLIT) & pairs["pair_id"].isin(negatives["pair_id"])]
    return int(known["image_id"].nunique()) >= LEAST


def _check_image_count(images: int) -> None:
    if images < LEAST:
        raise DataError(
            f"A judge's threshold cannot be calibrated with fewer than {LEAST} images of the {SPLIT} split that have a "
            f"hard negative; their number is {images}. Give more images, raise scenes.val_test_frac, or set "
            f"filter_images.faithfulness_threshold to a number."
        )


def _sample_one_per_group(rows: pd.DataFrame, name: str, of: str, seed: int) -> pd.DataFrame:
    """Return one random row for each value of column ``of``, in random order; the draw depends on column ``name``."""
    draw = rows[name].map(lambda text: zlib.crc32(f"{seed}:{text}".encode()))
    drawn = rows.assign(draw=draw).sort_values(["draw", name])
    return drawn.drop_duplicates(of).reset_index(drop=True)


def compute_cross_fitted_threshold(
    fitting: MatchScores, unfitting: MatchScores, fold: Ints, unfitting_fold: Ints | None = None
) -> Calibration:
    """Return the best threshold of all pairs, with figures of each fold under the threshold of the other folds.

    Args:
        fitting: (n,) fits of the pairs that fit.
        unfitting: (m,) fits of the pairs that do not fit.
        fold: (n,) fold of the image of each pair that fits.
        unfitting_fold: (m,) the same for those that do not fit; None: the same images in the same order.
    """
    folds = fold, fold if unfitting_fold is None else unfitting_fold
    right, wrong = (np.zeros(len(side), dtype=bool) for side in folds)
    for one in np.unique(np.concatenate(folds)):
        right_here, wrong_here = (side == one for side in folds)
        threshold = select_threshold(fitting[~right_here], unfitting[~wrong_here]).threshold
        right[right_here] = fitting[right_here] >= threshold
        wrong[wrong_here] = unfitting[wrong_here] >= threshold
    whole = select_threshold(fitting, unfitting)
    return _add_intervals(_compute_calibration(whole.threshold, right, wrong), right, wrong)


def _add_intervals(calibration: Calibration, right: Bools, wrong: Bools) -> Calibration:
    """Return a calibration with its yield and intervals.

    Args:
        calibration: figures of these pairs.
        right: (n,) whether each pair that fits passes.
        wrong: (m,) whether each pair that does not fit passes.
    """
    hits, n_passed, n = int(right.sum()), int(right.sum() + wrong.sum()), len(right) + len(wrong)
    return calibration._replace(
        passed=round(n_passed / n, DIGITS),
        precision_interval=_compute_interval(hits, n_passed),
        recall_interval=_compute_interval(hits, len(right)),
        passed_interval=_compute_interval(n_passed, n),
    )


def _compute_interval(hits: int, n: int) -> Interval:
    low, high = wilson_interval(hits / n if n else 0.0, n)
    return round(float(low), DIGITS), round(float(high), DIGITS)


def select_threshold(fitting: MatchScores, unfitting: MatchScores) -> Calibration:
    """Return the threshold that separates the fits best, (n,) and (n,), with its figures on the same fits."""
    values = np.unique(np.concatenate([fitting, unfitting]))
    middles = np.round((values[1:] + values[:-1]) / 2, DIGITS)
    candidates = [
        _compute_calibration(float(t), fitting >= t, unfitting >= t)
        for t in np.unique([0.0, *middles]).tolist()
    ]
    return max(candidates, key=lambda c: (c.balanced_accuracy, c.threshold))


def _compute_calibration(threshold: float, right: Bools, wrong: Bools) -> Calibration:
    """Return the figures of a threshold.

    Args:
        threshold: the threshold.
        right: (n,) whether each pair that fits passes.
        wrong: (m,) whether each pair that does not fit passes.
    """
    recall, passed = float(right.mean()), float(wrong.mean())
    n_passed = int(right.sum() + wrong.sum())
    precision = int(right.sum()) / n_passed if n_passed else 0.0
    return Calibration(
        threshold,
        len(right),
        precision=round(precision, DIGITS),
        recall=round(recall, DIGITS),
        balanced_accuracy=round((recall + 1 - passed) / 2, DIGITS),
    )
