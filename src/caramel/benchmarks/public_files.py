"""What the readers of public release formats share: which files and folders a release has."""

from __future__ import annotations

import filecmp
from collections.abc import Iterable, Sequence
from pathlib import Path

from caramel.errors import DataError, format_items
from caramel.io.readers import open_parquet
from caramel.io.validators import format_value


def find_release_files(folder: Path, names: Iterable[str], layout: str) -> list[Path]:
    """Return those of the named files that the folder holds.

    Raises:
        DataError: it holds none; the message says what was looked for and how the folder should look.
    """
    names = list(names)
    files = [folder / name for name in names if (folder / name).is_file()]
    if not files:
        raise DataError(
            f"{str(folder)!r} holds none of {', '.join(names)}. Expected layout:\n{layout}\n"
            f"Give the folder that holds it with --data."
        )
    return files


def list_parquet_files(folder: Path, pattern: str, columns: Sequence[str], layout: str) -> list[Path]:
    """Return the Parquet files of a pattern, in order of their names; each has at least these columns.

    Raises:
        DataError: there is none, one is broken, or lacks a column.
    """
    files = sorted(folder.glob(pattern))
    if not files:
        raise DataError(f"{str(folder)!r} holds no {pattern}. Expected layout:\n{layout}")
    for path in files:
        with open_parquet(path, columns):
            pass
    return files


def locate_images(images: Path, names: Sequence[str], folders: Sequence[str]) -> list[Path]:
    """Return the path of each named image, in ``images`` itself or in one of these folders below it.

    Errors and missing images as in ``locate_files``.
    """
    return locate_files([images, *(images / name for name in folders)], names) or [
        images / name for name in names
    ]


def locate_files(folders: Sequence[Path], names: Sequence[str]) -> list[Path] | None:
    """Return the path of each named file in the first of the folders that holds it; None if none holds any.

    A release may be spread over several folders, as Visual Genome is over VG_100K and VG_100K_2. A file that no folder
    holds is sought where the first of the others lies, so that the check of the images can list it.

    Raises:
        DataError: a name stands for different files in two of the folders; the message lists all such names.
    """
    present = [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
    copies = {
        name: [path for folder in present if (path := folder / name).is_file()]
        for name in dict.fromkeys(names)
    }
    clashes = [
        f"{format_value(name)}: {paths[0]} and {other}"
        for name, paths in copies.items()
        for other in paths[1:]
        if not _is_same(paths[0], other)
    ]
    if clashes:
        raise DataError(
            f"{len(clashes)} images have one name and different content in two folders:\n{format_items(clashes)}\n"
            f"Leave in these folders only the image that the benchmark means."
        )
    default = next((folder for name in copies for folder in present if folder / name in copies[name]), None)
    if default is None:
        return None
    return [copies[name][0] if copies[name] else default / name for name in names]


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths are one file, or files of equal content."""
    return one.samefile(other) or filecmp.cmp(one, other, shallow=False)
