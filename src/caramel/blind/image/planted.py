"""The positive control of the attackers of pictures: a shortcut that was planted must be found.

An attacker that finds nothing in a data set says something only if it finds what is there. So some pairs are copied, all of
their negative images are made darker by a little, and the attackers are asked again.
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

LEVELS = 12  # of 255 by which the negative images are darker
PAIRS = 400  # that are copied, at most


def run_planted_control(
    images: Sequence[bytes], negatives: Sequence[bytes], cv: CrossValidation
) -> dict[str, Any]:
    """Return what the attackers find in a copy of some pairs whose negative images were all made darker.

    JSON-like: ``levels`` of 255 by which they are; ``pictures``: attacker -> accuracy; ``joint``: attacker -> GroupMatch, with
    texts that tell; each with ``ci_low``, ``ci_high``, ``n`` and ``unscored``: of too few groups all are unscored.

    Args:
        images: n encoded files of true images, at least one.
        negatives: n encoded files of negative images, one for each.
        cv: folds of the pairs; its seed is also that of draws and weights.

    Raises:
        DataError: an image does not decode.
    """
    order = np.argsort(compute_stable_keys(cv.groups, cv.seed), kind="stable")[:PAIRS].tolist()
    # Both sides are encoded anew: the kind of the file must not be what gives one away.
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
    """Return the image as PNG, every value lower by so many levels, but none below 0."""
    from PIL import Image

    values = np.asarray(decode_image(data, "planted"), np.int16) - levels
    file = io.BytesIO()
    Image.fromarray(values.clip(0, 255).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()
