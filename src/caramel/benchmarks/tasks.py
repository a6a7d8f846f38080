"""What a benchmark asks of a model, read from its public files.

There are two forms. ``Comparisons``: one or two images and two or three captions, every pair of which
has a score (SugarCrepe, SugarCrepe++, BiVLC, Winoground …). ``Rankings``: one query, an image or a text,
and candidates of the other kind, some of which are true (CREPE, retrieval, classification …).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.benchmarks.image_files import ImageFile
from caramel.errors import DataError, shown
from caramel.storage.fields import brief, stays_inside

Index = npt.NDArray[np.int64]
ABSENT = -1  # place of an item that the instance does not have
Direction = Literal["i2t", "t2i"]
COMPARISON_COLUMNS = (
    "instance_id",
    "image_id",
    "subsets",
    "image",
    "negative_image",
    "caption",
    "negative_caption",
    "caption2",
)
RANKING_COLUMNS = ("instance_id", "image_id", "subsets", "direction", "query", "pool", "true")


@dataclass(frozen=True)
class Comparisons:
    """Instances of one or two images and two or three captions.

    Attributes:
        rows: ``COMPARISON_COLUMNS``. instance_id: unique; image_id: name of the positive image, the
            cluster of the intervals; subsets: list of names, without ``all``; image, negative_image:
            places in ``images`` of I0 and I1, or ``ABSENT``; caption C0, negative_caption C1 and
            caption2 P2: text, or None where the instance has none.
        images: distinct images.
    """

    rows: pd.DataFrame
    images: Sequence[ImageFile]


@dataclass(frozen=True)
class Rankings:
    """Queries, each with candidates of which some are true.

    Attributes:
        rows: ``RANKING_COLUMNS``. instance_id, image_id, subsets as in ``Comparisons``; direction:
            ``i2t`` (the query is an image, candidates are texts) or ``t2i``; query: place of the query in
            ``images`` or ``texts``; pool: place in ``pools``; true: list of places of the true candidates
            in ``images`` or ``texts``, each of them in the pool.
        images: distinct images.
        texts: distinct texts; each is one prompt, or several whose embeddings are averaged (the templates
            of a class).
        pools: places of the candidates of a query; rows may share one.
    """

    rows: pd.DataFrame
    images: Sequence[ImageFile]
    texts: Sequence[tuple[str, ...]]
    pools: Sequence[Index]


Task = Comparisons | Rankings


def _none(subset: str) -> bool:
    return False


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: how to read it, and how it is judged.

    Attributes:
        name: as on the command line, and of its folder in ``--data``.
        layout: for the user: where it is published and what to put where, in a few lines.
        reader: (folder of the benchmark, folder of images) -> task. Reads captions and names images; does
            not open images (but for what names them) and raises DataError on any broken file.
        metrics: names in ``metrics.METRICS``, in the order of the paper.
        macro: which subsets the subset ``macro`` is the mean of; none: there is no macro mean.
        confirmed: what the layout was checked against.
        any_folder: every folder in the benchmark's folder counts, whatever it is called.
    """

    name: str
    layout: str
    reader: Callable[..., Task]
    metrics: tuple[str, ...]
    confirmed: str
    macro: Callable[[str], bool] = _none
    any_folder: bool = False

    def read(self, data: Path, images: Path, **options: Any) -> Task:
        """Return the task of the files in ``data``; ``options`` are the reader's own.

        Raises:
            DataError: a file is missing or broken, or names an image outside of both folders.
        """
        task = self.reader(data, images, **options)
        outside = [
            path for path in {image.path for image in task.images} if not _inside(path, (data, images))
        ]
        if outside:
            raise DataError(
                f"Benchmark {self.name!r} names {len(outside)} images outside of {str(data)!r} and {str(images)!r}, "
                f"which are not read:\n{shown(sorted(map(brief, outside)))}\nCorrect these names in its files."
            )
        return task


def _inside(path: str, folders: Sequence[Path]) -> bool:
    """Return whether a path is one of the folders followed by the name of a file inside of it."""
    whole = PurePath(path)
    return any(
        whole.is_relative_to(folder) and stays_inside(str(whole.relative_to(folder))) for folder in folders
    )


def comparisons(rows: Sequence[dict[str, object]], images: Sequence[ImageFile]) -> Comparisons:
    """Return the task of the rows; columns that a row leaves out are absent."""
    absent = {"negative_image": ABSENT, "image": ABSENT, "caption2": None, "negative_caption": None}
    # Columns of type str would turn None into NaN, which is no text and no absence.
    frame = pd.DataFrame([{**absent, **row} for row in rows], columns=list(COMPARISON_COLUMNS), dtype=object)
    frame = frame.where(frame.notna(), None)
    return Comparisons(frame.astype({"image": np.int64, "negative_image": np.int64}), images)


def limited(task: Task, limit: int | None) -> Task:
    """Return the task's first ``limit`` instances and the images and texts that they need; None: all.

    The candidates of a query stay: it is as hard as it was.
    """
    if limit is None or limit >= len(task.rows):
        return task
    rows = task.rows.iloc[:limit].reset_index(drop=True)
    if isinstance(task, Rankings):
        return _limited_rankings(rows, task)
    used = np.unique(rows[["image", "negative_image"]].to_numpy())
    used = used[used != ABSENT]
    moved = dict(zip(used.tolist(), range(len(used)), strict=True)) | {ABSENT: ABSENT}
    places = {name: rows[name].map(moved).astype(np.int64) for name in ("image", "negative_image")}
    return Comparisons(rows.assign(**places), [task.images[i] for i in used.tolist()])


def _limited_rankings(rows: pd.DataFrame, task: Rankings) -> Rankings:
    """Return the task of some of its rows, without images, texts and pools that none of them needs."""
    # Queries of both directions may share a pool, which then holds places of texts and of images.
    keys = list(zip(rows["direction"], rows["pool"], strict=True))
    pools = {key: task.pools[key[1]] for key in keys}
    to_text = (rows["direction"] == "i2t").to_numpy()
    queries = rows["query"].to_numpy(np.int64)

    def used(direction: str, asking: Index) -> Index:
        return np.unique(
            np.concatenate([asking, *(pool for key, pool in pools.items() if key[0] == direction)])
        )

    texts, images = used("i2t", queries[~to_text]), used("t2i", queries[to_text])
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
    )
