"""Interface of a benchmark: the tasks that it poses to a model, read from its public files.

There are two forms:

- ``Comparisons``: one or two images and two or three captions, with a score for every pair (SugarCrepe,
  SugarCrepe++, BiVLC, Winoground …).
- ``Rankings``: one query, an image or a text, and candidates of the other modality, some of them true (CREPE,
  retrieval, classification …).
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
ABSENT = -1  # index of an item that the instance does not have
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
    """One image: a file, a cell of a Parquet table, or an entry of a table ``images``; possibly a crop of it.

    Attributes:
        path: path of the image file, of the Parquet file, or of the table ``images``.
        row: row of the Parquet file; None: ``path`` is the image file itself.
        column: column of the Parquet file: encoded bytes, or a struct with a field ``bytes``.
        box: region of the image to use, (left, top, right, bottom) in pixels.
        name: ``image_id`` in the table ``images``; None: ``path`` is not such a table.
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
    """Instances of a task that cannot be scored because their images are missing.

    Attributes:
        rows: same columns as the task's rows; indices of images have no meaning.
        texts_hash: hash of each row's texts, see ``content.hash_texts``.
        missing_images: number of images that are missing.
        images: number of images of the whole task.
    """

    rows: pd.DataFrame
    texts_hash: Sequence[str]
    missing_images: int
    images: int


@dataclass(frozen=True)
class Comparisons:
    """Instances with one or two images and two or three captions.

    Attributes:
        rows: ``COMPARISON_COLUMNS``. instance_id: unique; image_id: name of the positive image, the
            cluster of the intervals; subsets: list of names, without ``all``; image, negative_image:
            indices in ``images`` of I0 and I1, or ``ABSENT``; caption C0, negative_caption C1 and
            caption2 P2: text, or None if the instance has none.
        images: distinct images.
        left_out: instances without a score; None: there are none.
    """

    rows: pd.DataFrame
    images: Sequence[ImageFile]
    left_out: Exclusion | None = None


class Reject(NamedTuple):
    """A row of a benchmark's files that defines no query."""

    location: str  # file, row and column
    reason: str  # from a small set
    text: str  # the content, shortened


@dataclass(frozen=True)
class Rankings:
    """Queries, each with candidates, some of which are true.

    Attributes:
        rows: ``RANKING_COLUMNS``. instance_id, image_id, subsets as in ``Comparisons``; direction:
            ``i2t`` (the query is an image, candidates are texts) or ``t2i``; query: index of the query in
            ``images`` or ``texts``; pool: index in ``pools``; true: list of indices of the true candidates
            in ``images`` or ``texts``, each of them in the pool.
        images: distinct images.
        texts: distinct texts; each is one prompt, or several whose embeddings are averaged (the templates
            of a class).
        pools: indices of the candidates of a query; rows may share a pool.
        rejects: parts of the files that define no query, and the reasons.
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
    """A benchmark: how to read it and how to score it.

    Attributes:
        name: name on the command line, and of its folder in ``--data``.
        layout: for the user: where it is published and where to put its files, in a few lines.
        reader: (folder of the benchmark, folder of images) -> task. It reads captions and names of images,
            opens images only if these name other images, and raises DataError on any broken file.
        metrics: names in ``metrics.METRICS``, in the order of the paper.
        macro: selects the subsets over which the subset ``macro`` averages; none: there is no macro mean.
        means: further means by name, each over subsets and earlier means; missing members are left out.
        confirmed: sources against which the layout was checked.
        any_folder: every subfolder of the benchmark's folder counts, with any name.
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
        """Return the task of the files in ``data``. ``options`` are passed to the reader.

        Raises:
            DataError: a file is missing or broken, or names an image outside both folders.
        """
        task = self.reader(data, images, **options)
        outside = [
            path
            for path in {image.path for image in task.images}
            if not _is_inside_folders(path, (data, images))
        ]
        if outside:
            raise DataError(
                f"Benchmark {self.name!r} names {len(outside)} images outside of {str(data)!r} and {str(images)!r}. They "
                f"are not read:\n{format_items(sorted(map(format_value, outside)))}\nCorrect these names in its files."
            )
        return task


def _is_inside_folders(path: str, folders: Sequence[Path]) -> bool:
    """Return whether a path is one of the folders followed by the name of a file inside it."""
    whole = PurePath(path)
    return any(
        whole.is_relative_to(folder) and is_inside_folder(str(whole.relative_to(folder)))
        for folder in folders
    )
