"""Read captions and hard negatives of any data set that can be audited, in one form.

A data set is a folder or a file:

- a folder with a public benchmark as published, or with caramel's tables
- one file with named columns

The names of the files tell the format; see ``formats``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.audit.files.columns import IF_NAMED, MEANS, SUFFIXES, complete_rows, read_named
from caramel.audit.files.formats import (
    INSTANCES_FORMAT,
    SUGARCREPE_FORMAT,
    TABLES_FORMAT,
    describe_formats,
    detect_format,
)
from caramel.audit.files.task_rows import LocatedRows, build_object_series, build_task_rows, find_files
from caramel.benchmarks.public_files import locate_images
from caramel.benchmarks.readers.sugarcrepe import FOLDERS
from caramel.benchmarks.tasks import format_rejects, list_rejects
from caramel.errors import DataError, format_items
from caramel.interfaces.benchmark import ImageFile, Rankings
from caramel.io.frame_checks import FRAME, select_named_columns
from caramel.io.validators import format_value
from caramel.registry import BENCHMARKS
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.sources.sugarcrepe_files import read_captions

COLUMNS = (
    "pair_id",
    "image_id",
    "type",
    "subtype",
    "caption",
    "caption2",
    "negative_caption",
    "image",
    "negative_image",
)
NAMED, SUGARCREPE_PP = "columns", "sugarcrepe_pp"


@dataclass(frozen=True)
class AuditRows:
    """The rows and images of a data set to audit.

    The columns of the rows are ``COLUMNS``, and those of ``IF_NAMED`` that the data set has:

    - pair_id: unique.
    - image_id: name of the positive image.
    - type, subtype: as the data set names them. ``all`` if it has none; ``other`` for rows without one if other
      rows have one.
    - caption, negative_caption: text, which may be empty.
    - caption2: text or None.
    - negative_image_id: name of the negative image, whether or not it is available; None if a row has none.
    - image, negative_image: keys of ``images``. None if the data set has no such image or it is not available.

    Attributes:
        rows: the rows.
        format: a name in ``FORMAT_SIGNATURES``, ``sugarcrepe_pp`` or ``columns``.
        images: the available images; ``image_files.read_encoded_image`` reads them.
        notes: parts of the data set that are not audited, one line each.
        queries: queries with their candidates, if the data set is a benchmark that ranks candidates.
    """

    rows: pd.DataFrame
    format: str
    images: Mapping[str, ImageFile]
    notes: tuple[str, ...] = ()
    queries: Rankings | None = None


def read_rows(path: Path, *, images: Path | None = None, name: str | None = None) -> AuditRows:
    """Return the rows of a data set, whatever its format.

    A caption with several false candidates (CREPE, ARO's orders, What'sUp) gives a row for each false
    candidate. A caption that is in several subsets by design (CREPE's ``both`` and ``all_types``, and its
    files for several training sets) gives only the rows of the first subset. Images are not opened.

    Args:
        path: folder of a data set, or a file: SugarCrepe's file of one subtype, or a file with named columns.
        images: folder of the images; None: the folder of the data.
        name: name of the format, if a folder holds several or if it is a benchmark of another package.

    Raises:
        DataError: ``path`` does not exist, has no known format (the message lists the formats), or has several
            formats; the data are broken or have no hard negatives; or ``images`` holds none of their images.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"{str(path)!r} does not exist. Give the folder or file of a data set.")
    folder = images or (path if path.is_dir() else path.parent)
    notes: tuple[str, ...] = ()
    queries = None
    if path.is_dir():
        # Only their readers know the files of benchmarks of other packages.
        format_name = name if name is not None and name in BENCHMARKS.plugins else detect_format(path, name)
        if format_name in READERS:
            rows, files = READERS[format_name](path, folder)
        else:
            task = BENCHMARKS[format_name].load_rows(path, folder)
            rows, files = build_task_rows(format_name, task, repr(str(path)))
            queries = task if isinstance(task, Rankings) else None
            notes = (format_rejects(rejects, format_name),) if (rejects := list_rejects(task)) else ()
    elif path.suffix == ".json" and path.stem in SUBTYPES:
        format_name = SUGARCREPE_FORMAT
        rows, files = _read_sugarcrepe(path, folder)
    elif path.name == "instances.parquet":
        format_name = INSTANCES_FORMAT
        rows, files = _read_instances(path.parent, folder)
    elif path.suffix in SUFFIXES:
        format_name = NAMED
        rows, files = _read_named_columns(path, folder)
    else:
        raise DataError(f"{str(path)!r} has an unknown format.\n{describe_formats()}")
    if format_name == SUGARCREPE_FORMAT and rows["caption2"].notna().all():
        format_name = SUGARCREPE_PP
    notes += () if images is None else _note_images(rows, files, images, repr(str(path)))
    return AuditRows(_check_rows(rows, repr(str(path))), format_name, files, notes, queries)


def read_frame(frame: pd.DataFrame, *, images: Path | None = None) -> AuditRows:
    """Return the rows of a frame with named columns, as for such a file; see ``columns.read_named``.

    Args:
        frame: ``caption``, ``negative_caption``, and further columns.
        images: folder of the images; None: images are not audited.

    Raises:
        DataError: a column is missing or a duplicate, there are no rows, a value is not text, an id is a
            duplicate, an image is outside of the folder, or the folder holds none of the images.
    """
    plain = select_named_columns(frame).astype(object)
    records: list[Any] = plain.where(plain.notna(), None).to_dict("records")
    locations = [f"{FRAME}, row {label!r}" for label in frame.index]
    rows = complete_rows(list(plain.columns), list(zip(locations, records, strict=True)), FRAME)
    if images is None:
        return AuditRows(_check_rows(rows.assign(image=None, negative_image=None), FRAME), NAMED, {})
    located, files = _locate_row_images(rows, images)
    notes = _note_images(located, files, images, FRAME)
    return AuditRows(_check_rows(located, FRAME), NAMED, files, notes)


def _read_sugarcrepe(path: Path, images: Path) -> LocatedRows:
    """Return the rows of the files of SugarCrepe or SugarCrepe++."""
    rows = read_captions(path)
    names = list(dict.fromkeys(rows["image_id"]))
    paths = dict(zip(names, map(str, locate_images(images, names, FOLDERS)), strict=True))
    files = find_files(map(ImageFile, paths.values()))
    image = [paths[name] if paths[name] in files else None for name in rows["image_id"]]
    return rows.assign(
        type=rows["subtype"].str.partition("_")[0], image=build_object_series(image), negative_image=None
    ), files


def _read_instances(path: Path, images: Path) -> LocatedRows:
    """Return the rows of table ``instances``, with the images of table ``images`` if it exists."""
    rows = read_table(INSTANCES, path / "instances.parquet")
    store = path / "images.parquet"
    ids = read_table(IMAGES, store, ["image_id"])["image_id"] if store.is_file() else ()
    files = {name: ImageFile(str(store), name=name) for name in ids}
    image_columns = {
        column: build_object_series([str(files[name]) if name in files else None for name in rows[of]])
        for column, of in (("image", "image_id"), ("negative_image", "negative_image_id"))
    }
    return rows.assign(pair_id=rows["instance_id"], **image_columns), {
        str(file): file for file in files.values()
    }


def _read_tables(path: Path, images: Path) -> LocatedRows:
    """Return the rows of tables ``negatives``, ``pairs`` and, if it exists, ``paraphrases``."""
    if not (path / "pairs.parquet").is_file():
        raise DataError(
            f"{str(path)!r} holds negatives.parquet but not pairs.parquet. Give a folder that holds both, such as "
            f"data/refine."
        )
    negatives = read_table(NEGATIVES, path / "negatives.parquet")
    rows = negatives.merge(read_table(PAIRS, path / "pairs.parquet"), on="pair_id", how="left")
    lost = rows.loc[rows["caption"].isna(), "negative_id"].tolist()
    if lost:
        raise DataError(
            f"{str(path)!r}: the pairs of some negatives are not in pairs.parquet (number of negatives: {len(lost)}):\n"
            f"{format_items([format_value(name) for name in lost])}"
        )
    second = path / "paraphrases.parquet"
    known = {}
    if second.is_file():
        paraphrases = read_table(PARAPHRASES, second)
        known = dict(zip(paraphrases["pair_id"], paraphrases["caption2"], strict=True))
    caption2 = build_object_series([known.get(name) for name in rows["pair_id"]])
    return rows.assign(pair_id=rows["negative_id"], caption2=caption2, image=None, negative_image=None), {}


def _read_named_columns(path: Path, images: Path) -> LocatedRows:
    """Return the rows of a file with named columns; its images are paths relative to the images' folder."""
    return _locate_row_images(read_named(path), images)


def _locate_row_images(rows: pd.DataFrame, images: Path) -> LocatedRows:
    """Return rows with the keys of their available images, which are embedded or named in a folder."""
    columns = {
        column: [ImageFile(str(images / name)) if isinstance(name, str) else name for name in rows[column]]
        for column in ("image", "negative_image")
    }
    files = find_files(
        dict.fromkeys(file for column in columns.values() for file in column if file is not None)
    )
    for column, of_rows in columns.items():
        keys = [None if file is None else str(file) for file in of_rows]
        rows[column] = build_object_series([key if key in files else None for key in keys])
    return rows, files


def _note_images(
    rows: pd.DataFrame, files: Mapping[str, ImageFile], images: Path, where: str
) -> tuple[str, ...]:
    """Return a note if some rows lack an image in the folder that the user named.

    Raises:
        DataError: the folder holds none of the images.
    """
    if not files:
        names = [format_value(name) for name in dict.fromkeys(rows["image_id"])]
        raise DataError(
            f"{str(images)!r} holds none of the images of the audited rows. Their names are:\n{format_items(names, 3)}\n"
            f"Give the folder that holds these files, or no folder."
        )
    both = int(rows[["image", "negative_image"]].notna().all(axis=1).sum())
    if both == len(rows):
        return ()
    what = "the audit of images covers only these rows" if both else "images are not audited"
    return (
        f"{both} of {len(rows)} rows of {where} have both an image and a negative image in {str(images)!r}: {what}.",
    )


def _check_rows(rows: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the rows with the columns of the contract.

    Raises:
        DataError: there are no rows, an id is a duplicate, or a type or subtype has a reserved name.
    """
    if rows.empty:
        raise DataError(f"{where} holds no row.")
    twice = rows.loc[rows["pair_id"].duplicated(), "pair_id"].astype(str).tolist()
    if twice:
        raise DataError(
            f"{where}: some ids are duplicates (number of duplicates: {len(twice)}):\n"
            f"{format_items([format_value(name) for name in twice])}\nGive each row its own id."
        )
    for column in ("type", "subtype"):
        names = {*rows[column]}
        if len(names) > 1 and (taken := sorted(names & MEANS)):
            raise DataError(
                f"{where}: column {column!r} has the value {taken[0]!r} among others. This name is reserved for figures "
                f"over several values. Give it another name."
            )
    columns = [*COLUMNS, *(name for name in IF_NAMED if name in rows.columns)]
    result = rows[columns].reset_index(drop=True).astype(object)
    return result.where(result.notna(), None)


READERS: Mapping[str, Callable[[Path, Path], LocatedRows]] = {
    INSTANCES_FORMAT: _read_instances,
    TABLES_FORMAT: _read_tables,
    SUGARCREPE_FORMAT: _read_sugarcrepe,
}
