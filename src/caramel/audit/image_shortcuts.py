"""Image-side shortcuts: what tells a true image from its negative image without any caption.

A generated or re-encoded negative image can give itself away by its file (size, format, quality of the
compression), its shape, its colours, or its finest detail, of which generators draw less or other than
cameras record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.arrays import Floats, Ints
from caramel.audit.attack_figures import figures
from caramel.blind.crossfit import cross_fitted, pair_weights
from caramel.blind.scorers import places
from caramel.draws import assign_folds
from caramel.running.parallel import threaded
from caramel.storage.pictures import open_picture, opened

CAP = 20_000  # pairs to learn from, per fold
ALL = "all features"
COST = 1.0  # inverse strength of the L2 penalty
WINDOW = 256  # pixels: side of the centre square whose detail is measured
FINE = 0.25  # cycles per pixel above which detail is fine; half of what pixels can hold

# Feature -> what it is. Sizes are logarithms, so that a difference is a ratio.
FEATURES = {
    "file_size": "ln of the file's bytes",
    "width": "ln of pixels, upright",
    "height": "ln of pixels, upright",
    "aspect": "ln of width / height",
    "elongation": "|ln of width / height|: 0 for a square",
    "jpeg": "1 for a JPEG file",
    "png": "1 for a PNG file",
    "webp": "1 for a WebP file",
    "quantisation": "ln of 1 + the mean step of a JPEG's luminance table: more is coarser; 0 for others",
    "red": "mean, in [0, 1]",
    "green": "mean, in [0, 1]",
    "blue": "mean, in [0, 1]",
    "red_spread": "standard deviation, in [0, 0.5]",
    "green_spread": "standard deviation, in [0, 0.5]",
    "blue_spread": "standard deviation, in [0, 0.5]",
    "fine_detail": "ln of the share of the grey centre's power above FINE cycles per pixel",
}


class ImageShortcuts(NamedTuple):
    """What an attacker finds that sees the two images of each pair and no caption.

    Attributes:
        positive: (n,) scores in [0, 1] of the true images, learned out of fold.
        negative: (n,) scores of the negative images.
        figures: of these scores: ``accuracy`` (share of pairs whose true image scores higher, a tie counted
            half), ``ci_low`` and ``ci_high`` (95 %, clustered on groups), ``p_value``; see ``attack_figures``.
        features: one row per feature, most telling first: ``feature``; ``more_in``, the side on which it
            is larger more often (``true``, ``negative``, or ``neither``); and the figures of this feature
            alone, its direction learned on the other folds.
    """

    positive: Floats
    negative: Floats
    figures: Mapping[str, float]
    features: pd.DataFrame


def image_shortcuts(
    images: Sequence[bytes],
    negatives: Sequence[bytes],
    groups: Sequence[str],
    *,
    folds: int,
    seed: int,
) -> ImageShortcuts:
    """Return how well images give away which of two is the true one, by logistic regression on features.

    The regression is on the difference of the two images' features, learned on the pairs of the other
    folds; what may be learned from is as in ``crossfit.cross_fitted``.

    Args:
        images: n encoded files of true images, at least one.
        negatives: n encoded files of negative images, one for each.
        groups: n names; rows of one name are in one fold.
        folds: number of folds.
        seed: of folds and draws.

    Raises:
        DataError: an image does not decode; the message gives its hash.
    """
    files = {hashlib.sha256(data).hexdigest(): data for data in (*images, *negatives)}
    hashes = [[hashlib.sha256(data).hexdigest() for data in side] for side in (images, negatives)]
    names, sides = places(*hashes)
    table = np.stack(threaded(lambda name: measure(files[name], name), names))

    def learn(learned: Ints, scored: Ints) -> Floats:
        weights = pair_weights(table[learned[0]] - table[learned[1]], cost=COST)
        return np.asarray(table[scored] @ weights)

    positive, negative = cross_fitted(names, sides, groups, learn, folds=folds, seed=seed, cap=CAP)
    gaps = table[sides[0]] - table[sides[1]]
    fold = assign_folds(groups, folds=folds, seed=seed)
    oriented = {name: _oriented(gap, fold) for name, gap in zip(FEATURES, gaps.T, strict=True)}
    found = _figures({ALL: positive - negative, **oriented}, groups, folds, seed)
    sides_of = {name: _side(gap) for name, gap in zip(FEATURES, gaps.T, strict=True)}
    features = pd.DataFrame([{"feature": f, "more_in": sides_of[f], **found[f]} for f in FEATURES])
    features = features.sort_values("accuracy", ascending=False, kind="stable", ignore_index=True)
    return ImageShortcuts(positive, negative, found[ALL], features)


def measure(data: bytes, name: str) -> Floats:
    """Return the features of an encoded image, in the order of ``FEATURES``. (d,).

    Raises:
        DataError: it does not decode; the message names it.
    """
    picture = open_picture(data, name)
    colours = np.array(picture.histogram(), dtype=float).reshape(3, 256)  # no copy of the pixels as numbers
    shares, levels = colours / colours.sum(axis=1, keepdims=True), np.linspace(0, 1, 256)
    means = shares @ levels
    spreads = np.sqrt((shares * (levels - means[:, None]) ** 2).sum(axis=1))
    with opened(data, name) as file:
        kind = file.format
        steps = getattr(file, "quantization", None) or {}
    aspect = np.log(picture.width / picture.height)
    return np.array(
        [
            np.log(len(data)),
            np.log(picture.width),
            np.log(picture.height),
            aspect,
            abs(aspect),
            *(float(kind in known) for known in (("JPEG", "MPO"), ("PNG",), ("WEBP",))),
            np.log1p(np.mean(steps[0])) if 0 in steps else 0.0,
            *means,
            *spreads,
            _fine_detail(np.asarray(picture.convert("L"))),
        ]
    )


def _fine_detail(grey: npt.NDArray[np.uint8]) -> float:
    """Return ln of the share of the centre's power that is at more than ``FINE`` cycles per pixel.

    The mean is left out, and a Hann window keeps the edges from counting as detail.
    """
    top, left = (max(0, (side - WINDOW) // 2) for side in grey.shape)
    centre = grey[top : top + WINDOW, left : left + WINDOW].astype(float)
    window = np.outer(*(np.hanning(side + 2)[1:-1] for side in centre.shape))
    mean = (centre * window).sum() / window.sum()
    power = np.abs(np.fft.fft2((centre - mean) * window)) ** 2
    frequency = np.hypot(*np.meshgrid(*map(np.fft.fftfreq, centre.shape), indexing="ij"))
    # The constant keeps an even picture, which has no detail at all, finite.
    return float(np.log((power[frequency > FINE].sum() + 1e-3) / (power.sum() + 1.0)))


def _oriented(gap: Floats, fold: Ints) -> Floats:
    """Return a feature's gaps (n,), turned round on folds where the others say that less looks true."""
    lead = np.sign(gap)
    against = np.array([lead[fold != k].sum() < 0 for k in range(fold.max() + 1)])
    return np.where(against[fold], -gap, gap)


def _side(gap: Floats) -> str:
    """Return the side on which the feature is larger more often."""
    lead = np.sign(gap).sum()
    return "true" if lead > 0 else "negative" if lead < 0 else "neither"


def _figures(
    gaps: Mapping[str, Floats], groups: Sequence[str], folds: int, seed: int
) -> dict[str, dict[str, float]]:
    """Return accuracy, interval and p-value of each attacker's gaps (n,)."""
    number = np.unique(np.array(groups, dtype=str), return_inverse=True)[1].astype(np.int64)
    rows = pd.DataFrame({"type": "all", "subtype": "all"}, index=range(len(number)))
    found = figures(rows, gaps, number, folds=folds, seed=seed)
    names = {"micro": "accuracy", "ci_low": "ci_low", "ci_high": "ci_high", "p_value": "p_value"}
    return {name: {new: found[name]["overall"][old] for old, new in names.items()} for name in gaps}
