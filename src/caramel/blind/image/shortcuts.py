"""Find image-side shortcuts: what tells a true image from its negative without its relation to a caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.blind.image.attack import ATTACKERS, Scores, attack_images, decode_images
from caramel.blind.image.features import FEATURES
from caramel.blind.image.joint import Figure, compute_hit_shares, compute_joint_hits
from caramel.blind.text.attack_results import Figures, compute_attack_metrics
from caramel.blind.text.linear_probe import score_with_probe
from caramel.utils.arrays import Floats, Ints
from caramel.utils.grouping import merge_groups
from caramel.utils.hashing import assign_folds
from caramel.utils.resampling import CrossValidation


class ImageShortcuts(NamedTuple):
    """Results of attackers that see the two images of each pair and no caption.

    Attributes:
        rows: indices of the attacked rows. Types of fewer than ``FEWEST`` groups are not attacked.
        scores: attacker -> out-of-fold scores in [0, 1] of the true and of the negative images of these rows.
        figures: attacker -> how often the true image scores higher, with ties counted half; see
            ``compute_attack_metrics``.
        features: one row per feature, highest accuracy first. Columns: ``feature``; ``more_in``, the side on
            which the feature is larger more often (``true``, ``negative`` or ``neither``); and the figures of
            this feature alone, with its direction learned on the other folds.
        joint: attacker -> metric -> value of the joint attacker, with text scores of the blind scorer
            ``probe``; see ``image.joint``.
    """

    rows: Ints
    scores: Mapping[str, Scores]
    figures: Mapping[str, Figures]
    features: pd.DataFrame
    joint: Mapping[str, Mapping[str, Figure]]


def find_image_shortcuts(
    images: Sequence[bytes],
    negatives: Sequence[bytes],
    rows: pd.DataFrame,
    cv: CrossValidation,
) -> ImageShortcuts:
    """Return how well attackers tell the true image of each pair without a caption.

    Args:
        images: n encoded files of true images, at least one.
        negatives: n encoded files of negative images, one for each.
        rows: n audit rows: columns type, subtype, caption and negative_caption.
        cv: folds of the rows. Rows with images of equal pixels are put in one fold too. Its seed is also used
            for sampling and weights.

    Raises:
        DataError: an image does not decode; the message gives its hash.
    """
    rows = rows.reset_index(drop=True)
    decoded_images = decode_images(images, negatives)
    sides = decoded_images.find_indices(images, negatives)
    names = merge_groups(cv.groups, decoded_images.equal[sides])
    scores = attack_images(decoded_images, sides, rows["type"].tolist(), replace(cv, groups=names))
    at = np.flatnonzero(~np.isnan(scores["features"][0]))
    scores = {name: (results[0][at], results[1][at]) for name, results in scores.items()}
    gaps = {name: positive - negative for name, (positive, negative) in scores.items()}
    differences = (decoded_images.features[sides[0]] - decoded_images.features[sides[1]])[at]
    row_groups = [names[i] for i in at.tolist()]
    fold = assign_folds(row_groups, folds=cv.folds, seed=cv.seed)
    alone = {
        f"alone {name}": _orient_gaps(gap, fold) for name, gap in zip(FEATURES, differences.T, strict=True)
    }
    number = np.unique(np.array(row_groups, dtype=str), return_inverse=True)[1].astype(np.int64)
    results = compute_attack_metrics(rows.iloc[at], {**gaps, **alone}, number, folds=cv.folds, seed=cv.seed)
    table = pd.DataFrame(
        [
            {"feature": name, "more_in": _find_larger_side(gap), **_select_overall(results[f"alone {name}"])}
            for name, gap in zip(FEATURES, differences.T, strict=True)
            if results
        ],
        columns=["feature", "more_in", "accuracy", "ci_low", "ci_high", "p_value"],
    ).sort_values("accuracy", ascending=False, kind="stable", ignore_index=True)
    texts = _score_texts(rows.iloc[at], replace(cv, groups=row_groups)) if results else None
    joint = (
        {
            name: _compute_joint_metrics(texts, of_images, number, cv.folds)
            for name, of_images in scores.items()
        }
        if texts
        else {}
    )
    return ImageShortcuts(at, scores, {name: results[name] for name in ATTACKERS if results}, table, joint)


def _score_texts(rows: pd.DataFrame, cv: CrossValidation) -> Scores:
    """Return the scores of the captions and of the negatives under the blind scorer ``probe``, type by type."""
    types, names, scores = (
        rows["type"].to_numpy(),
        np.array(cv.groups, dtype=object),
        np.empty((2, len(rows))),
    )
    for one in rows["type"].unique():
        here = types == one
        captions, negatives = (rows.loc[here, side].tolist() for side in ("caption", "negative_caption"))
        scores[:, here] = score_with_probe(captions, negatives, replace(cv, groups=names[here].tolist()))
    return scores[0], scores[1]


def _compute_joint_metrics(texts: Scores, images: Scores, number: Ints, folds: int) -> dict[str, Figure]:
    """Return the metrics of the joint attacker over all rows."""
    everything = {"all": np.arange(len(number))}
    return {
        str(metric): compute_hit_shares(
            hits.to_numpy(np.float64), everything, number, folds=folds, value="value"
        )["all"]
        for metric, hits in compute_joint_hits(texts, images).items()
    }


def _orient_gaps(gap: Floats, fold: Ints) -> Floats:
    """Return a feature's gaps (n,), negated on folds where lower values look true in the other folds."""
    lead = np.sign(gap)
    against = np.array([lead[fold != k].sum() < 0 for k in range(fold.max(initial=-1) + 1)], dtype=bool)
    return np.where(against[fold], -gap, gap)


def _find_larger_side(gap: Floats) -> str:
    """Return the side on which the feature is larger more often."""
    lead = np.sign(gap).sum()
    return "true" if lead > 0 else "negative" if lead < 0 else "neither"


def _select_overall(metrics: Figures) -> dict[str, float]:
    """Return accuracy, interval and p-value over all rows."""
    names = {"micro": "accuracy", "ci_low": "ci_low", "ci_high": "ci_high", "p_value": "p_value"}
    return {new: metrics["overall"][old] for old, new in names.items()}
