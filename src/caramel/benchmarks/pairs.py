"""Read benchmarks of Winoground's form (Thrush et al. 2022): two images and two captions.

Each caption is true of only one image. A release is a set of Parquet files that hold the images, or a list of
rows and a folder of images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from caramel.benchmarks.embedded_images import check_image_type, name_cells, read_image_cells
from caramel.benchmarks.public_files import list_parquet_files, locate_files
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import DataError
from caramel.interfaces.benchmark import Comparisons, ImageFile
from caramel.io.readers import iter_parquet_rows, open_parquet
from caramel.io.validators import read_text_field

METRICS = ("i2t", "t2i", "group", "group_match")  # Winoground's text, image and group score, and GroupMatch


class Row(NamedTuple):
    """One row of a release.

    Attributes:
        where: file and row, for messages.
        fields: captions, tags and numbers of the row.
        images: I0, for which the first caption is true, and I1.
        image_id: name of I0.
    """

    where: str
    fields: Mapping[str, Any]
    images: tuple[ImageFile, ImageFile]
    image_id: str


def find_release_folder(data: Path, patterns: Sequence[str], folders: Sequence[str], layout: str) -> Path:
    """Return ``data``, or the first of these subfolders, that holds a file matching one of the patterns.

    Raises:
        DataError: no folder does; the message shows the expected layout.
    """
    for folder in (data, *(data / name for name in folders)):
        if any(next(folder.glob(pattern), None) for pattern in patterns):
            return folder
    raise DataError(
        f"{str(data)!r} holds none of {', '.join(patterns)}. Expected layout:\n{layout}\n"
        f"Give the folder that holds the release with --data."
    )


def read_embedded_rows(
    folder: Path,
    images: tuple[str, str],
    fields: Sequence[str],
    layout: str,
    optional: Sequence[str] = (),
    pattern: str = "test-*.parquet",
) -> list[Row]:
    """Return the rows of the files that match a pattern, in order. The images stay in the files.

    Args:
        folder: folder of the files.
        images: columns of I0 and I1.
        fields: further columns to read.
        layout: expected layout, for messages.
        optional: columns to read if the files have them.
        pattern: pattern of the file names.

    Raises:
        DataError: no file matches, a file is broken, or a column is missing or of the wrong type.
    """
    files = list_parquet_files(folder, pattern, [*images, *fields], layout)
    schemas = [_read_schema(path, images) for path in files]
    names = iter(list_image_names(files, images[0]))
    firsts: dict[str, ImageFile] = {}
    rows = []
    for path, schema in zip(files, schemas, strict=True):
        present = [name for name in optional if name in schema.names]
        for n, (where, values) in enumerate(iter_parquet_rows(path, [*fields, *present])):
            name = next(names)
            first = firsts.setdefault(name, ImageFile(str(path), n, images[0]))
            rows.append(Row(where, values, (first, ImageFile(str(path), n, images[1])), name))
    return rows


def list_image_names(files: Sequence[Path], column: str) -> list[str]:
    """Return the image name of each row over all files. Equal names mean equal images.

    See ``name_cells``. A missing image is named by its row.
    """
    cells = [cell for path in files for cell in read_image_cells(path, column)]
    names = name_cells(cells, column, repr(str(files[0].parent)))
    return [f"row-{n}" if name is None else name for n, name in enumerate(names)]


def list_image_folders(release: Path, images: Path, folders: Sequence[str]) -> list[Path]:
    """Return the folders that may hold images: the user's, the release's, and these subfolders of both."""
    return [root / name for root in (images, release) for name in ("", *folders)]


def build_file_rows(
    rows: Iterable[tuple[str, Mapping[str, Any], str, str]],
    release: Path,
    images: Path,
    folders: Sequence[str],
) -> list[Row]:
    """Return rows whose images are files.

    Args:
        rows: for each row: where it is, its fields, and the file names of I0 and I1.
        release: folder of the release, which may hold its images.
        images: image folder that the user gave.
        folders: possible names of the image folder in either of them.
    """
    listed = list(rows)
    names = [name for *_, first, second in listed for name in (first, second)]
    paths = locate_files(list_image_folders(release, images, folders), names) or [
        images / name for name in names
    ]
    files = {name: ImageFile(str(path)) for name, path in zip(names, paths, strict=True)}
    return [
        Row(where, fields, (files[first], files[second]), first) for where, fields, first, second in listed
    ]


def build_pair_task(
    rows: Sequence[Row],
    captions: tuple[str, str],
    name: Callable[[int, Row], str],
    subsets: Callable[[Row], list[str]],
    where: Path,
) -> Comparisons:
    """Return the task made of the rows.

    Args:
        rows: rows of the release.
        captions: fields of C0 and C1.
        name: maps (row number, row) to the name of the instance.
        subsets: maps a row to its subsets.
        where: folder of the release, for messages.

    Raises:
        DataError: there are no rows, or a field is missing or invalid.
    """
    if not rows:
        raise DataError(f"The release in {str(where)!r} has no rows. Download it again.")
    image_indices: dict[ImageFile, int] = {}
    instances = [
        {
            "instance_id": name(n, row),
            "image_id": row.image_id,
            "subsets": subsets(row),
            "image": image_indices.setdefault(row.images[0], len(image_indices)),
            "negative_image": image_indices.setdefault(row.images[1], len(image_indices)),
            "caption": read_text_field(row.fields, captions[0], row.where),
            "negative_caption": read_text_field(row.fields, captions[1], row.where),
        }
        for n, row in enumerate(rows)
    ]
    return build_comparisons(instances, list(image_indices))


def _read_schema(path: Path, images: Sequence[str]) -> pa.Schema:
    """Return the columns of a file after checking that the image columns can hold encoded images."""
    with open_parquet(path, images) as file:
        schema = file.schema_arrow
    for name in images:
        check_image_type(schema.field(name).type, name, repr(str(path)))
    return schema
