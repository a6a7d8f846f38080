"""What the parts of CREPE (Ma et al. 2023) share: its CSV files, and retrieval among hard negatives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.benchmarks.visual_genome import Box, region, vg_file
from caramel.errors import DataError
from caramel.kinds.benchmark import RANKING_COLUMNS, ImageFile, Index, Rankings
from caramel.storage.fields import brief, name_field, text_field
from caramel.storage.records import csv_rows, literal

BOX = ("x", "y", "width", "height")
COLUMNS = ("image_id", *BOX, "caption")


class Region(NamedTuple):
    """One row of a file: a region of an image, its caption, and hard negatives by their type."""

    image_id: str
    box: Box
    caption: str
    negatives: Mapping[str, tuple[str, ...]]


class Query(NamedTuple):
    """A retrieval of a region's caption among it and the region's negatives of some types."""

    instance_id: str
    subsets: list[str]
    types: tuple[str, ...]


def regions(path: Path, negatives: Mapping[str, str]) -> list[Region]:
    """Return the rows of a file.

    Args:
        path: of the CSV file.
        negatives: type of hard negative -> its column, a Python list of texts.

    Raises:
        DataError: the file is broken or has no row, a box is no box, or a list of negatives is no list of
            texts or empty.
    """
    rows = list(csv_rows(path, [*COLUMNS, *negatives.values()]))
    if not rows:
        raise DataError(f"{str(path)!r} holds no row. Download it again.")
    return [
        Region(
            name_field(row, "image_id", where),
            region(row, BOX, where),
            text_field(row, "caption", where),
            {kind: _negatives(row[column], column, where) for kind, column in negatives.items()},
        )
        for where, row in rows
    ]


def _negatives(text: str, column: str, where: str) -> tuple[str, ...]:
    found = literal(text, f"{where}, column {column!r}")
    if not isinstance(found, list) or not found:
        raise DataError(f"{where}: column {column!r} must be a list of captions, not {brief(found)}.")
    return tuple(text_field({column: negative}, column, where) for negative in found)


def among_negatives(retrievals: Iterable[tuple[Region, Sequence[Query]]], images: Path) -> Rankings:
    """Return the task in which each region, an image, is the query and has a pool of its own.

    Every caption is a candidate of its own: a hard negative that equals the caption ties with it.

    Args:
        retrievals: regions, each with its queries.
        images: folder of the Visual Genome images.
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
    return Rankings(pd.DataFrame(rows, columns=list(RANKING_COLUMNS)), list(places), texts, pools)
