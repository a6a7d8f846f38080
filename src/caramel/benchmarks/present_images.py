"""Exclude the instances of a benchmark whose images are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from caramel.benchmarks.content import hash_texts
from caramel.benchmarks.tasks import select_rows
from caramel.interfaces.benchmark import ABSENT, Exclusion, ImageFile, Rankings, Task
from caramel.utils.arrays import Bools


def exclude_missing(task: Task) -> Task:
    """Return the task with only the instances whose images are all present.

    The others become its ``left_out``.

    A query among images is excluded if any candidate is missing, so that the remaining queries stay as hard
    as they were. If no instance is complete, the task is returned unchanged, so that the image check can list
    what is missing.
    """
    present = _find_present(task.images)
    complete = _is_complete(task, present)
    if complete.all() or not complete.any():
        return task
    texts_hash = [text for text, whole in zip(hash_texts(task), complete, strict=True) if not whole]
    left_out = Exclusion(
        task.rows[~complete].reset_index(drop=True), texts_hash, int((~present).sum()), len(present)
    )
    return replace(select_rows(task, task.rows[complete].reset_index(drop=True)), left_out=left_out)


def format_exclusion(left_out: Exclusion, name: str, scored: int) -> str:
    """Return a line on a benchmark's missing images and the instances that get no score for them."""
    instances = len(left_out.rows)
    return (
        f"{name}: {left_out.missing_images:,} of {left_out.images:,} images are missing; {instances:,} of "
        f"{instances + scored:,} instances have no score."
    )


def _find_present(images: Sequence[ImageFile]) -> Bools:
    """Return whether the file of each image is present, (n,)."""
    files = {path: Path(path).is_file() for path in dict.fromkeys(image.path for image in images)}
    return np.array([files[image.path] for image in images], bool)


def _is_complete(task: Task, present: Bools) -> Bools:
    """Return whether all images of each instance are present, (n,)."""
    if isinstance(task, Rankings):
        pools: dict[int, bool] = {}
        complete = []
        columns = (task.rows[name] for name in ("direction", "query", "pool"))
        for direction, query, pool in zip(*columns, strict=True):
            if direction == "t2i" and pool not in pools:
                pools[pool] = bool(present[task.pools[pool]].all())
            complete.append(pools[pool] if direction == "t2i" else present[query])
        return np.array(complete, bool)
    positions = task.rows[["image", "negative_image"]].to_numpy(np.int64)
    extended = np.append(present, True)  # last entry for ABSENT
    assert ABSENT == -1
    whole: Bools = extended[positions].all(axis=1)
    return whole
