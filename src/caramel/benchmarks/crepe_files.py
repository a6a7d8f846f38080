"""What the parts of CREPE (Ma et al. 2023) share: its CSV files, and retrieval among hard negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd

from caramel.benchmarks.visual_genome import Box, locate_vg_image, read_box
from caramel.errors import DataError
from caramel.interfaces.benchmark import RANKING_COLUMNS, ImageFile, Index, Rankings, Reject
from caramel.io.readers import TextFile, iter_csv_rows, parse_literal
from caramel.io.validators import format_value, read_name_field, read_text_field
from caramel.io.zip_archive import list_zipped_files

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


class ParsedRegions(NamedTuple):
    """The rows of a file, and what of them is of no use."""

    regions: list[Region]
    rejects: list[Reject]


class Query(NamedTuple):
    """A retrieval of a region's caption among it and the region's negatives of some types."""

    instance_id: str
    subsets: list[str]
    types: tuple[str, ...]


def list_release_files(
    data: Path, parse_name: Callable[[str], T | None], layout: str
) -> list[tuple[T, TextFile]]:
    """Return the CSV files of a release, each with what its name says, by their names.

    The authors publish zip archives. A file lies in the folder, in a folder in it, or in an archive in either; one that is
    unpacked is taken before the same one in an archive.

    Args:
        data: folder of the release.
        parse_name: name of a file, without folders -> what it says; None: it is no file of the release.
        layout: for messages.

    Raises:
        DataError: there is no file, an archive cannot be read, or two files have one name.
    """
    unpacked: dict[str, TextFile] = {}
    for path in sorted([*data.glob("*.csv"), *data.glob("*/*.csv")]):
        if path.name in unpacked and parse_name(path.name) is not None:
            raise DataError(
                f"{str(path)!r} and {str(unpacked[path.name])!r} have one name. Leave one of them there."
            )
        unpacked[path.name] = path
    files = sorted((list_zipped_files(data) | unpacked).items())
    matches = [(what, file) for name, file in files if (what := parse_name(name)) is not None]
    if not matches:
        raise DataError(
            f"{str(data)!r} holds no file of the release, and neither do zip archives in it. Expected layout:\n{layout}\n"
            f"Give the folder that holds it with --data."
        )
    return matches


def read_regions(
    path: TextFile, negatives: Mapping[str, str], optional: Mapping[str, str] | None = None
) -> ParsedRegions:
    """Return the rows of a file; a cell of negatives that is empty or broken is a reject, and the row's others stay.

    Args:
        path: of the CSV file, which may lie in a zip archive.
        negatives: type of hard negative -> its column: a Python list, tuple or set of texts, as released.
        optional: the same of columns that files need not have.

    Raises:
        DataError: the file is broken or has no row, a box is no box, or none of its rows has a hard negative.
    """
    rows = list(iter_csv_rows(path, [*COLUMNS, *negatives.values()]))
    if not rows:
        raise DataError(f"{str(path)!r} holds no row. Download it again.")
    columns = {**negatives, **{k: c for k, c in (optional or {}).items() if c in rows[0][1]}}
    parsed = ParsedRegions([], [])
    for number, (where, row) in enumerate(rows):
        lists: dict[str, tuple[str, ...]] = {}
        for negative_type, column in columns.items():
            read = _parse_negatives(row[column], f"{where}, column {column!r}")
            if isinstance(read, Reject):
                parsed.rejects.append(read)
            else:
                lists[negative_type] = read
        parsed_region = Region(
            read_name_field(row, "image_id", where),
            read_box(row, BOX, where),
            read_text_field(row, "caption", where),
            lists,
            number,
        )
        if lists or not columns:
            parsed.regions.append(parsed_region)
    if not parsed.regions:
        raise DataError(f"{str(path)!r} holds no row with hard negatives. The first: {parsed.rejects[0]}.")
    return parsed


def _parse_negatives(text: str, where: str) -> tuple[str, ...] | Reject:
    """Return the captions in a cell; those of a set, which has no order, by name."""
    try:
        value = parse_literal(text, where)
        if not isinstance(value, list | tuple | set):
            return Reject(where, BROKEN, format_value(text))
        negatives = tuple(read_text_field({"": negative}, "", where) for negative in value)
    except DataError:
        return Reject(where, BROKEN, format_value(text))
    if not negatives:
        return Reject(where, EMPTY, format_value(text))
    return tuple(sorted(negatives)) if isinstance(value, set) else negatives


def build_negative_rankings(
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
    image_indices: dict[ImageFile, int] = {}
    files: dict[str, str] = {}
    for region, queries in retrievals:
        file = files.get(region.image_id) or files.setdefault(
            region.image_id, locate_vg_image(images, region.image_id)
        )
        image = image_indices.setdefault(ImageFile(file, box=region.box), len(image_indices))
        true = len(texts)
        texts.append((region.caption,))
        by_type = {}
        for negative_type, negatives in region.negatives.items():
            by_type[negative_type] = np.arange(len(texts), len(texts) + len(negatives))
            texts += [(negative,) for negative in negatives]
        for query in queries:
            row = (query.instance_id, region.image_id, query.subsets, "i2t", image, len(pools), [true])
            rows.append(row)
            pools.append(np.concatenate([[true], *(by_type[negative_type] for negative_type in query.types)]))
    return Rankings(
        pd.DataFrame(rows, columns=list(RANKING_COLUMNS)), list(image_indices), texts, pools, tuple(rejects)
    )
