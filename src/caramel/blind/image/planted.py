"""Run the positive control of the image attackers: they must find a planted shortcut.

That an attacker finds no shortcut in a data set is evidence only if it finds shortcuts that exist. So some
pairs are copied, all negative images of the copies are made slightly darker, and the attackers score the
copies.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from caramel.blind.image.attack import ATTACKERS, attack_images, compute_pair_hits, decode_images
from caramel.blind.image.joint import compute_hit_shares, compute_joint_hits
from caramel.io.image_codec import decode_image
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.resampling import CrossValidation

LEVELS = 12  # levels of 255 by which the negative images are darker
PAIRS = 400  # maximum number of copied pairs


def run_planted_control(
    images: Sequence[bytes], negatives: Sequence[bytes], cv: CrossValidation
) -> dict[str, Any]:
    """Return the attackers' figures on copied pairs whose negative images are all darker.

    The result is JSON-like:

    - ``levels``: levels of 255 by which the negative images are darker.
    - ``pictures``: attacker -> accuracy.
    - ``joint``: attacker -> GroupMatch, with text scores that are always right.

    Each figure has ``ci_low``, ``ci_high``, ``n`` and ``unscored``. With too few groups, all pairs are
    unscored.

    Args:
        images: n encoded files of true images, at least one.
        negatives: n encoded files of negative images, one for each.
        cv: folds of the pairs. Its seed is also used for sampling and weights.

    Raises:
        DataError: an image does not decode.
    """
    order = np.argsort(compute_stable_keys(cv.groups, cv.seed), kind="stable")[:PAIRS].tolist()
    # Both sides are re-encoded, so that the file format does not reveal the negative.
    plain, darker = (
        [_darken_image(images[n], 0) for n in order],
        [_darken_image(negatives[n], LEVELS) for n in order],
    )
    sampled_groups, everything = [cv.groups[n] for n in order], {"all": np.arange(len(order))}
    decoded_images = decode_images(plain, darker)
    sides = decoded_images.find_indices(plain, darker)
    scores = attack_images(
        decoded_images, sides, ["planted"] * len(order), replace(cv, groups=sampled_groups)
    )
    cluster = np.unique(np.array(sampled_groups, dtype=str), return_inverse=True)[1].astype(np.int64)
    telling = np.ones(len(order)), np.zeros(len(order))
    result: dict[str, Any] = {"levels": LEVELS, "pictures": {}, "joint": {}}
    for name in ATTACKERS:
        matched = compute_joint_hits(telling, scores[name])["group_match"].to_numpy(np.float64)
        for section, hits, value in (
            ("pictures", compute_pair_hits(scores[name]), "accuracy"),
            ("joint", matched, "value"),
        ):
            result[section][name] = compute_hit_shares(
                hits, everything, cluster, folds=cv.folds, value=value
            )["all"]
    return result


def _darken_image(data: bytes, levels: int) -> bytes:
    """Return the image as PNG with every value lowered by ``levels``, but not below 0."""
    from PIL import Image

    values = np.asarray(decode_image(data, "planted"), np.int16) - levels
    file = io.BytesIO()
    Image.fromarray(values.clip(0, 255).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()
