"""What the parts of CREPE (Ma et al. 2023) share: its CSV files, and retrieval among hard negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd

from caramel.benchmarks.visual_genome import Box, region, vg_file
from caramel.errors import DataError
from caramel.interfaces.benchmark import RANKING_COLUMNS, ImageFile, Index, Rankings, Reject
from caramel.io.readers import TextFile, csv_rows, literal
from caramel.io.validators import brief, name_field, text_field
from caramel.io.zip_archive import zipped_files

BOX = ("x", "y", "width", "height")
COLUMNS = ("image_id", *BOX, "caption")


T = TypeVar("T")
EMPTY, BROKEN = "no hard negative", "hard negatives that are no captions"


class Region(NamedTuple):
    """One row of a file: a region of an image, its caption, and hard negatives by their type, each one at least."""

    image_id: str
    box: Box
    caption: str
    negatives: Mapping[str, tuple[str, ...]]
    number: int = 0  # of the row in its file, from 0


class Regions(NamedTuple):
    """The rows of a file, and what of them is of no use."""

    kept: list[Region]
    rejects: list[Reject]


class Query(NamedTuple):
    """A retrieval of a region's caption among it and the region's negatives of some types."""

    instance_id: str
    subsets: list[str]
    types: tuple[str, ...]


def released_files(data: Path, named: Callable[[str], T | None], layout: str) -> list[tuple[T, TextFile]]:
    """Return the CSV files of a release, each with what its name says, by their names.

    The authors publish zip archives. A file lies in the folder, in a folder in it, or in an archive in either; one that is
    unpacked is taken before the same one in an archive.

    Args:
        data: folder of the release.
        named: name of a file, without folders -> what it says; None: it is no file of the release.
        layout: for messages.

    Raises:
        DataError: there is no file, an archive cannot be read, or two files have one name.
    """
    unpacked: dict[str, TextFile] = {}
    for path in sorted([*data.glob("*.csv"), *data.glob("*/*.csv")]):
        if path.name in unpacked and named(path.name) is not None:
            raise DataError(
                f"{str(path)!r} and {str(unpacked[path.name])!r} have one name. Leave one of them there."
            )
        unpacked[path.name] = path
    files = sorted((zipped_files(data) | unpacked).items())
    found = [(what, file) for name, file in files if (what := named(name)) is not None]
    if not found:
        raise DataError(
            f"{str(data)!r} holds no file of the release, and neither do zip archives in it. Expected layout:\n{layout}\n"
            f"Give the folder that holds it with --data."
        )
    return found


def regions(
    path: TextFile, negatives: Mapping[str, str], optional: Mapping[str, str] | None = None
) -> Regions:
    """Return the rows of a file; a cell of negatives that is empty or broken is a reject, and the row's others stay.

    Args:
        path: of the CSV file, which may lie in a zip archive.
        negatives: type of hard negative -> its column: a Python list, tuple or set of texts, as released.
        optional: the same of columns that files need not have.

    Raises:
        DataError: the file is broken or has no row, a box is no box, or none of its rows has a hard negative.
    """
    rows = list(csv_rows(path, [*COLUMNS, *negatives.values()]))
    if not rows:
        raise DataError(f"{str(path)!r} holds no row. Download it again.")
    columns = {**negatives, **{k: c for k, c in (optional or {}).items() if c in rows[0][1]}}
    found = Regions([], [])
    for number, (where, row) in enumerate(rows):
        lists: dict[str, tuple[str, ...]] = {}
        for kind, column in columns.items():
            read = _negatives(row[column], f"{where}, column {column!r}")
            if isinstance(read, Reject):
                found.rejects.append(read)
            else:
                lists[kind] = read
        shown = Region(
            name_field(row, "image_id", where),
            region(row, BOX, where),
            text_field(row, "caption", where),
            lists,
            number,
        )
        if lists or not columns:
            found.kept.append(shown)
    if not found.kept:
        raise DataError(f"{str(path)!r} holds no row with hard negatives. The first: {found.rejects[0]}.")
    return found


def _negatives(text: str, where: str) -> tuple[str, ...] | Reject:
    """Return the captions in a cell; those of a set, which has no order, by name."""
    try:
        found = literal(text, where)
        if not isinstance(found, list | tuple | set):
            return Reject(where, BROKEN, brief(text))
        negatives = tuple(text_field({"": negative}, "", where) for negative in found)
    except DataError:
        return Reject(where, BROKEN, brief(text))
    if not negatives:
        return Reject(where, EMPTY, brief(text))
    return tuple(sorted(negatives)) if isinstance(found, set) else negatives


def among_negatives(
    retrievals: Iterable[tuple[Region, Sequence[Query]]], images: Path, rejects: Sequence[Reject]
) -> Rankings:
    """Return the task in which each region, an image, is the query and has a pool of its own.

    Every caption is a candidate of its own: a hard negative that equals the caption ties with it.

    Args:
        retrievals: regions, each with its queries.
        images: folder of the Visual Genome images.
        rejects: what of the files is no query.
    """
    rows: list[tuple[object, ...]] = []
    texts: list[tuple[str, ...]] = []
    pools: list[Index] = []
    places: dict[ImageFile, int] = {}
    files: dict[str, str] = {}
    for shown, queries in retrievals:
        file = files.get(shown.image_id) or files.setdefault(shown.image_id, vg_file(images, shown.image_id))
        image = places.setdefault(ImageFile(file, box=shown.box), len(places))
        true = len(texts)
        texts.append((shown.caption,))
        by_type = {}
        for kind, negatives in shown.negatives.items():
            by_type[kind] = np.arange(len(texts), len(texts) + len(negatives))
            texts += [(negative,) for negative in negatives]
        for query in queries:
            row = (query.instance_id, shown.image_id, query.subsets, "i2t", image, len(pools), [true])
            rows.append(row)
            pools.append(np.concatenate([[true], *(by_type[kind] for kind in query.types)]))
    return Rankings(
        pd.DataFrame(rows, columns=list(RANKING_COLUMNS)), list(places), texts, pools, tuple(rejects)
    )
