"""Build tasks from rows or from questions with options, select rows of them, and describe rejects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.interfaces.benchmark import (
    ABSENT,
    COMPARISON_COLUMNS,
    RANKING_COLUMNS,
    Comparisons,
    Direction,
    ImageFile,
    Index,
    Rankings,
    Reject,
    Task,
)


class Choice(NamedTuple):
    """A query with its own few options, exactly one of them true. Images are given by name.

    Attributes:
        instance_id: unique id.
        image_id: name of the image that is the query or the true option.
        subsets: subsets that the query belongs to.
        direction: ``i2t``: the query is an image and the options are texts; ``t2i``: the reverse.
        query: name of the image, or text.
        options: texts, or names of images.
        true: index of the true option.
    """

    instance_id: str
    image_id: str
    subsets: list[str]
    direction: Direction
    query: str
    options: Sequence[str]
    true: int


def build_comparisons(rows: Sequence[dict[str, object]], images: Sequence[ImageFile]) -> Comparisons:
    """Return the task made of the rows. A column that a row omits is absent for it."""
    absent = {"negative_image": ABSENT, "image": ABSENT, "caption2": None, "negative_caption": None}
    # Columns of type str would turn None into NaN, which is neither text nor a missing value.
    frame = pd.DataFrame([{**absent, **row} for row in rows], columns=list(COMPARISON_COLUMNS), dtype=object)
    frame = frame.where(frame.notna(), None)
    return Comparisons(frame.astype({"image": np.int64, "negative_image": np.int64}), images)


def build_choices(rows: Sequence[Choice], files: Sequence[tuple[str, ImageFile]]) -> Rankings:
    """Return the task made of queries with options.

    Each text option is a separate candidate. An option that equals the true one ties with it.

    Args:
        rows: queries.
        files: distinct image names, each with its file.
    """
    images = {name: index for index, (name, _) in enumerate(files)}
    texts: list[tuple[str, ...]] = []
    pools: list[Index] = []
    ranking_rows: list[tuple[object, ...]] = []
    for row in rows:
        if row.direction == "i2t":
            query, start = images[row.query], len(texts)
            texts += [(text,) for text in row.options]
            pool = np.arange(start, len(texts))
        else:
            query = len(texts)
            texts.append((row.query,))
            pool = np.array([images[name] for name in row.options], np.int64)
        true = [int(pool[row.true])]
        ranking_rows.append((*row[:4], query, len(pools), true))
        pools.append(pool)
    frame = pd.DataFrame(ranking_rows, columns=list(RANKING_COLUMNS))
    return Rankings(frame, [file for _, file in files], texts, pools)


def limit_instances(task: Task, limit: int | None) -> Task:
    """Return the task's first ``limit`` instances and the images and texts that they need.

    With None, return all instances.

    Each query keeps all its candidates, so it stays as hard as it was.
    """
    if limit is None or limit >= len(task.rows):
        return task
    return select_rows(task, task.rows.iloc[:limit].reset_index(drop=True))


def select_rows(task: Task, rows: pd.DataFrame) -> Task:
    """Return the task of some of its rows, with the images and texts that they need.

    Queries keep all candidates.
    """
    if isinstance(task, Rankings):
        return _select_ranked_rows(rows, task)
    used = np.unique(rows[["image", "negative_image"]].to_numpy())
    used = used[used != ABSENT]
    moved = dict(zip(used.tolist(), range(len(used)), strict=True)) | {ABSENT: ABSENT}
    indices = {name: rows[name].map(moved).astype(np.int64) for name in ("image", "negative_image")}
    return Comparisons(rows.assign(**indices), [task.images[i] for i in used.tolist()])


def _select_ranked_rows(rows: pd.DataFrame, task: Rankings) -> Rankings:
    """Return the task of some of its rows, without the images, texts and pools that no row needs."""
    # Queries of both directions may share a pool. The pool then holds indices of texts and of images.
    keys = list(zip(rows["direction"], rows["pool"], strict=True))
    pools = {key: task.pools[key[1]] for key in keys}
    to_text = (rows["direction"] == "i2t").to_numpy()
    queries = rows["query"].to_numpy(np.int64)

    def find_used(direction: str, asking: Index) -> Index:
        return np.unique(
            np.concatenate([asking, *(pool for key, pool in pools.items() if key[0] == direction)])
        )

    texts, images = find_used("i2t", queries[~to_text]), find_used("t2i", queries[to_text])
    candidates = {"i2t": texts, "t2i": images}
    number = {key: i for i, key in enumerate(pools)}
    moved = rows.assign(
        query=np.where(to_text, np.searchsorted(images, queries), np.searchsorted(texts, queries)),
        pool=[number[key] for key in keys],
        true=[
            np.searchsorted(candidates[direction], list(true)).tolist()
            for (direction, _), true in zip(keys, rows["true"], strict=True)
        ],
    )
    return Rankings(
        moved,
        [task.images[i] for i in images.tolist()],
        [task.texts[i] for i in texts.tolist()],
        [np.searchsorted(candidates[direction], pool) for (direction, _), pool in pools.items()],
        task.rejects,
    )


def list_rejects(task: Task) -> Sequence[Reject]:
    """Return the parts of a task's files that define no query."""
    return task.rejects if isinstance(task, Rankings) else ()


def format_rejects(rejects: Sequence[Reject], name: str) -> str:
    """Return a line on the rejects of a benchmark: for each reason the count and the first occurrence."""
    first: dict[str, str] = {}
    for reject in rejects:
        first.setdefault(reject.reason, reject.location)
    counts = Counter(reject.reason for reject in rejects)
    parts = "; ".join(
        f"{count:,}: {reason}, first at {first[reason]}" for reason, count in counts.most_common()
    )
    return f"Excluded from {name}: {parts}."
