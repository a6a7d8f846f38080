"""Hash the content of each instance, so that instances of the same name can be checked to be the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache

from caramel.interfaces.benchmark import ABSENT, Comparisons, Rankings, Task
from caramel.io.keys import KEY_BYTES

TEXTS_HASH, IMAGES_HASH = "texts_hash", "images_hash"  # columns of ``similarities`` and ``answers``


def hash_captions(caption: str | None, negative_caption: str | None, caption2: str | None) -> str:
    """Return the hash of an instance's captions and the role of each, as 32 hexadecimal digits."""
    return _hash_parts([caption, negative_caption, caption2])


def hash_texts(task: Task) -> list[str]:
    """Return the hash of each instance's texts.

    For rankings this covers the query or the candidates, in any order.
    """
    if isinstance(task, Comparisons):
        columns = (task.rows[name] for name in ("caption", "negative_caption", "caption2"))
        return [hash_captions(*captions) for captions in zip(*columns, strict=True)]
    return _hash_rankings(task, "i2t", [list(prompts) for prompts in task.texts])


def hash_images(task: Task, image_keys: Sequence[bytes]) -> list[str]:
    """Return the hash of the content of each instance's images. For rankings: of the query or the candidates.

    Args:
        task: the task.
        image_keys: content key of each image of the task.
    """
    keys = [key.hex() for key in image_keys]
    if isinstance(task, Comparisons):
        pairs = zip(task.rows["image"], task.rows["negative_image"], strict=True)
        return [_hash_parts([None if index == ABSENT else keys[index] for index in pair]) for pair in pairs]
    return _hash_rankings(task, "t2i", keys)


def _hash_rankings(task: Rankings, candidates_in: str, items: Sequence[object]) -> list[str]:
    """Return the hash of each row's candidates (true and pool) if these are the items, else of its query."""

    @cache
    def hash_pool(index: int) -> str:
        return _hash_parts(sorted(json.dumps(items[item]) for item in task.pools[index]))

    rows = task.rows
    return [
        _hash_parts([hash_pool(pool_index), sorted(json.dumps(items[item]) for item in true)])
        if direction == candidates_in
        else _hash_parts([items[query]])
        for direction, query, pool_index, true in zip(
            rows["direction"], rows["query"], rows["pool"], rows["true"], strict=True
        )
    ]


def _hash_parts(parts: Sequence[object]) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=KEY_BYTES).hexdigest()
