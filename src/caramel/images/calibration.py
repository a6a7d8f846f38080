"""From which fit on a judge is believed: chosen on pairs known to fit and on shuffled ones.

The scale of an image–text model is its own: a cosine of 0.2 is a good fit to one and a bad one to
another. So the threshold is measured, on captions that no training of the judge saw.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.storage.image_store import OnDemand

if TYPE_CHECKING:
    from caramel.kinds.judge import Fit, Judge

SPLIT = "val"  # the base is trained on train, and nothing is chosen on test
LEAST = 30  # images; with fewer, a threshold would be a guess
MOST = 2000  # images, drawn at random; more make it no surer
DIGITS = 6  # fits and shares are rounded, so that another processor's last bits change nothing


class Calibration(NamedTuple):
    """A threshold, and what it reaches on as many pairs that fit as shuffled ones, each in [0, 1]."""

    threshold: float
    images: int
    precision: float
    recall: float
    balanced_accuracy: float


def calibrate(judge: Judge, pairs: pd.DataFrame, images: Mapping[str, bytes], *, seed: int) -> Calibration:
    """Return the threshold with the best balanced accuracy on pairs of the val split.

    Each image stands once with a caption of its own, which fits, and once with one that it does not have and
    another image has, which counts as one that does not fit. Thresholds are the middles between neighbouring fits; of
    equally good ones the highest is taken.

    Args:
        judge: whose fits are looked at.
        pairs: table ``pairs``.
        images: encoded files by image_id.
        seed: of the draw of captions.

    Raises:
        DataError: there are fewer than ``LEAST`` images to look at.
    """
    at_hand = pairs["image_id"].map(images.__contains__).astype(bool)
    own = _one_each(pairs[(pairs["split"] == SPLIT) & at_hand], seed)
    own = own.assign(other=_of_others(own, pairs.groupby("image_id")["caption"].agg(set)))
    own = own.dropna(subset="other")
    _check(len(own))
    pictures = OnDemand(images.__getitem__, [*own["image_id"], *own["image_id"]])
    fits = judge.fit(pictures, [*own["caption"], *own["other"]])
    return best_threshold(fits[: len(own)], fits[len(own) :])


def check_enough(pairs: pd.DataFrame) -> None:
    """Say that a threshold cannot be calibrated before hours went into what it is for.

    Raises:
        DataError: there are fewer than ``LEAST`` images of the val split.
    """
    _check(pairs.loc[pairs["split"] == SPLIT, "image_id"].nunique())


def _check(images: int) -> None:
    if images < LEAST:
        raise DataError(
            f"A judge's threshold cannot be calibrated on {images} images of the {SPLIT} split: {LEAST} are "
            f"needed. Give more images, a larger share in scenes.held_out, or a number in "
            f"filter_images.min_faithful."
        )


def _one_each(pairs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return one pair of each image, at most ``MOST``, in an order drawn by the pairs' names."""
    draw = pairs["pair_id"].map(lambda name: zlib.crc32(f"{seed}:{name}".encode()))
    drawn = pairs.assign(draw=draw).sort_values(["draw", "pair_id"])
    return drawn.drop_duplicates("image_id").head(MOST).reset_index(drop=True)


def _of_others(own: pd.DataFrame, said: pd.Series[Any]) -> pd.Series[Any]:
    """Return for each image the next caption that none of its own pairs has; None: they all have one of these."""
    captions = own["caption"].tolist()
    others = [
        next((c for c in (*captions[i + 1 :], *captions[:i]) if c not in said[image]), None)
        for i, image in enumerate(own["image_id"])
    ]
    return pd.Series(others, index=own.index, dtype=object)


def best_threshold(fitting: Fit, shuffled: Fit) -> Calibration:
    """Return the threshold that tells the two best, (n,) and (n,), and what it reaches."""
    values = np.unique(np.concatenate([fitting, shuffled]))
    middles = np.round((values[1:] + values[:-1]) / 2, DIGITS)
    found = [_reached(float(t), fitting, shuffled) for t in np.unique([0.0, *middles])]
    return max(found, key=lambda c: (c.balanced_accuracy, c.threshold))


def _reached(threshold: float, fitting: Fit, shuffled: Fit) -> Calibration:
    recall, wrong = float((fitting >= threshold).mean()), float((shuffled >= threshold).mean())
    precision = recall / (recall + wrong) if recall + wrong else 0.0
    shares = (precision, recall, (recall + 1 - wrong) / 2)
    return Calibration(threshold, len(fitting), *(round(share, DIGITS) for share in shares))
