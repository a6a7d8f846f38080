"""Read the CSV files of CREPE (Ma et al. 2023) and build rankings of a caption among its hard negatives."""

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
    """A row of a file: a region of an image, its caption, and one or more hard negatives of each type."""

    image_id: str
    box: Box
    caption: str
    negatives: Mapping[str, tuple[str, ...]]
    number: int = 0  # number of the row in its file, from 0


class ParsedRegions(NamedTuple):
    """The rows of a file, and the cells that cannot be used."""

    regions: list[Region]
    rejects: list[Reject]


class Query(NamedTuple):
    """A query that ranks a region's caption against the region's negatives of some types."""

    instance_id: str
    subsets: list[str]
    types: tuple[str, ...]


def list_release_files(
    data: Path, parse_name: Callable[[str], T | None], layout: str
) -> list[tuple[T, TextFile]]:
    """Return the CSV files of a release, each with the value that was parsed from its name, sorted by name.

    The authors publish zip archives. Files are searched in the folder, in its subfolders, and in the zip
    archives of either. An unpacked file takes precedence over the same file in an archive.

    Args:
        data: folder of the release.
        parse_name: maps a file name without folders to a value; returns None if the file is not part of the
            release.
        data: folder of the release.
        parse_name: name of a file, without folders -> what it says; None: it is no file of the release.
        layout: expected layout, for messages.

    Raises:
        DataError: no file was found, an archive cannot be read, or two files have the same name.
    """
    unpacked: dict[str, TextFile] = {}
    for path in sorted([*data.glob("*.csv"), *data.glob("*/*.csv")]):
        if path.name in unpacked and parse_name(path.name) is not None:
            raise DataError(
                f"{str(path)!r} and {str(unpacked[path.name])!r} have the same name. Keep only one of them."
            )
        unpacked[path.name] = path
    files = sorted((list_zipped_files(data) | unpacked).items())
    matches = [(what, file) for name, file in files if (what := parse_name(name)) is not None]
    if not matches:
        raise DataError(
            f"{str(data)!r} holds no file of the release, also not in zip archives. Expected layout:\n{layout}\n"
            f"Give the folder that holds the release with --data."
        )
    return matches


def read_regions(
    path: TextFile, negatives: Mapping[str, str], optional: Mapping[str, str] | None = None
) -> ParsedRegions:
    """Return the rows of a file.

    An empty or broken cell of negatives is a reject; the row's other cells are used.

    Args:
        path: the CSV file, which may be in a zip archive.
        negatives: maps a type of hard negative to its column. A cell is a Python list, tuple or set of texts,
            as released.
        optional: the same for columns that a file may lack.

    Raises:
        DataError: the file is broken or has no row, a box is invalid, or no row has a hard negative.
    """
    rows = list(iter_csv_rows(path, [*COLUMNS, *negatives.values()]))
    if not rows:
        raise DataError(f"{str(path)!r} has no rows. Download it again.")
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
        raise DataError(f"{str(path)!r} has no row with hard negatives. First problem: {parsed.rejects[0]}.")
    return parsed


def _parse_negatives(text: str, where: str) -> tuple[str, ...] | Reject:
    """Return the captions in a cell. A set has no order, so its captions are sorted."""
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
    """Return the task in which each region (an image) is a query with its own pool of candidates.

    Each caption is a separate candidate. A hard negative that equals the caption therefore ties with it.

    Args:
        retrievals: regions, each with its queries.
        images: folder of the Visual Genome images.
        rejects: cells of the files that yield no query.
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
