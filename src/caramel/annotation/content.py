"""Identify what people judged by its content, so that no decision is applied to images or captions that nobody saw.

Names stay the same if images are drawn again; content does not. Items, answers and decisions carry one hash of the
captions and images that were displayed, and whoever uses a decision computes it again from the current tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import pandas as pd

DIGITS = 16  # hexadecimal digits of the hash


def hash_judged(captions: Iterable[str], images: Iterable[str] = ()) -> str:
    """Return a hash of judged captions and images.

    Args:
        captions: texts, in the order of the item; a repeated one counts once.
        images: SHA-256 of each encoded image, likewise.
    """
    content = json.dumps([list(dict.fromkeys(captions)), list(dict.fromkeys(images))])
    return hashlib.sha256(content.encode()).hexdigest()[:DIGITS]


def hash_candidates(candidates: pd.DataFrame, images: pd.DataFrame) -> dict[str, str]:
    """Return the hash of each negative's item of task ``choose``: its prompt and all of its images.

    Args:
        candidates: table ``candidates``.
        images: table ``images`` of the candidates.
    """
    sha256 = dict(zip(images["image_id"], images["sha256"], strict=True))
    return {
        str(negative_id): hash_judged(rows["prompt"], rows["image_id"].map(sha256))
        for negative_id, rows in candidates.sort_values("candidate").groupby("negative_id")
    }


def hash_instances(instances: pd.DataFrame, images: pd.DataFrame) -> dict[str, str]:
    """Return the hash of each instance's item of task ``baseline``: its two captions and its two images.

    Args:
        instances: table ``instances``; those without a negative image are left out.
        images: table ``images`` of the instances.
    """
    sha256 = dict(zip(images["image_id"], images["sha256"], strict=True))
    return {
        row["instance_id"]: hash_judged(
            (row["caption"], row["negative_caption"]),
            (sha256[row["image_id"]], sha256[row["negative_image_id"]]),
        )
        for row in instances.to_dict("records")
        if row["image_id"] in sha256 and row["negative_image_id"] in sha256
    }
