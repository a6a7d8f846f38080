"""What a benchmark is, and what it asks of a model, read from its public files.

There are two forms. ``Comparisons``: one or two images and two or three captions, every pair of which
has a score (SugarCrepe, SugarCrepe++, BiVLC, Winoground …). ``Rankings``: one query, an image or a text,
and candidates of the other kind, some of which are true (CREPE, retrieval, classification …).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.errors import DataError, format_items
from caramel.io.validators import format_value, is_inside_folder

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
class ImageFile:
    """One image: a file, a cell of a Parquet table, or one that table ``images`` names; perhaps a part of it.

    Attributes:
        path: of the image file, of the Parquet file, or of the table ``images``.
        row: row of the Parquet file; None: ``path`` is the image file itself.
        column: of the Parquet file: encoded bytes, or a struct with a field ``bytes``.
        box: part of the image that is meant, (left, top, right, bottom) in pixels.
        name: ``image_id`` of the table ``images``; None: ``path`` is no such table.
    """

    path: str
    row: int | None = None
    column: str = "image"
    box: tuple[int, int, int, int] | None = None
    name: str | None = None

    def __str__(self) -> str:
        cell = "" if self.row is None else f", row {self.row}, column {self.column!r}"
        cell = cell if self.name is None else f", image {format_value(self.name)}"
        return f"{self.path}{cell}{f', box {self.box}' if self.box else ''}"


class Exclusion(NamedTuple):
    """Instances of a task that cannot be scored, since images of theirs are missing.

    Attributes:
        rows: columns as of the task's rows; places of images mean nothing.
        texts_hash: of each, see ``content.hash_texts``.
        missing_images: number of images that are missing.
        images: number of images of the whole task.
    """

    rows: pd.DataFrame
    texts_hash: Sequence[str]
    missing_images: int
    images: int


@dataclass(frozen=True)
class Comparisons:
    """Instances of one or two images and two or three captions.

    Attributes:
        rows: ``COMPARISON_COLUMNS``. instance_id: unique; image_id: name of the positive image, the
            cluster of the intervals; subsets: list of names, without ``all``; image, negative_image:
            places in ``images`` of I0 and I1, or ``ABSENT``; caption C0, negative_caption C1 and
            caption2 P2: text, or None where the instance has none.
        images: distinct images.
        left_out: instances without a score; None: there are none.
    """

    rows: pd.DataFrame
    images: Sequence[ImageFile]
    left_out: Exclusion | None = None


class Reject(NamedTuple):
    """A row of a benchmark's files that asks nothing."""

    location: str  # file, row and column
    reason: str  # of a small set
    text: str  # what stands there, cut


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
        rejects: what of the files is no query, and why.
        left_out: instances without a score; None: there are none.
    """

    rows: pd.DataFrame
    images: Sequence[ImageFile]
    texts: Sequence[tuple[str, ...]]
    pools: Sequence[Index]
    rejects: Sequence[Reject] = ()
    left_out: Exclusion | None = None


Task = Comparisons | Rankings


def _select_none(subset: str) -> bool:
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
        means: further means by name, each over subsets and means that stand before it; members that do not occur are left out.
        confirmed: what the layout was checked against.
        any_folder: every folder in the benchmark's folder counts, whatever it is called.
    """

    name: str
    layout: str
    reader: Callable[..., Task]
    metrics: tuple[str, ...]
    confirmed: str
    macro: Callable[[str], bool] = _select_none
    any_folder: bool = False
    means: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def load_rows(self, data: Path, images: Path, **options: Any) -> Task:
        """Return the task of the files in ``data``; ``options`` are the reader's own.

        Raises:
            DataError: a file is missing or broken, or names an image outside of both folders.
        """
        task = self.reader(data, images, **options)
        outside = [
            path
            for path in {image.path for image in task.images}
            if not _is_inside_folders(path, (data, images))
        ]
        if outside:
            raise DataError(
                f"Benchmark {self.name!r} names {len(outside)} images outside of {str(data)!r} and {str(images)!r}, "
                f"which are not read:\n{format_items(sorted(map(format_value, outside)))}\nCorrect these names in its files."
            )
        return task


def _is_inside_folders(path: str, folders: Sequence[Path]) -> bool:
    """Return whether a path is one of the folders followed by the name of a file inside of it."""
    whole = PurePath(path)
    return any(
        whole.is_relative_to(folder) and is_inside_folder(str(whole.relative_to(folder)))
        for folder in folders
    )
