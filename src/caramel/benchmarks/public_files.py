"""Find the files and image folders of public releases."""

from __future__ import annotations

import filecmp
from collections.abc import Iterable, Sequence
from pathlib import Path

from caramel.errors import DataError, format_items
from caramel.io.readers import open_parquet
from caramel.io.validators import format_value


def find_release_files(folder: Path, names: Iterable[str], layout: str) -> list[Path]:
    """Return those of the named files that exist in the folder.

    Raises:
        DataError: none exists; the message lists the names and shows the expected layout.
    """
    names = list(names)
    files = [folder / name for name in names if (folder / name).is_file()]
    if not files:
        raise DataError(
            f"{str(folder)!r} holds none of {', '.join(names)}. Expected layout:\n{layout}\n"
            f"Give the folder that holds the release with --data."
        )
    return files


def list_parquet_files(folder: Path, pattern: str, columns: Sequence[str], layout: str) -> list[Path]:
    """Return the Parquet files that match a pattern, sorted by name. Each has at least these columns.

    Raises:
        DataError: no file matches, or a file is broken or lacks a column.
    """
    files = sorted(folder.glob(pattern))
    if not files:
        raise DataError(f"{str(folder)!r} holds no {pattern}. Expected layout:\n{layout}")
    for path in files:
        with open_parquet(path, columns):
            pass
    return files


def locate_images(images: Path, names: Sequence[str], folders: Sequence[str]) -> list[Path]:
    """Return the path of each named image, in ``images`` itself or in one of these subfolders.

    Handles errors and missing images as ``locate_files`` does.
    """
    return locate_files([images, *(images / name for name in folders)], names) or [
        images / name for name in names
    ]


def locate_files(folders: Sequence[Path], names: Sequence[str]) -> list[Path] | None:
    """Return the path of each named file in the first folder that holds it, or None if no folder holds any.

    A release may be spread over several folders, as Visual Genome is over VG_100K and VG_100K_2. A file that
    no folder holds gets a path in the folder of the first file that exists, so that the image check can list
    it.

    Raises:
        DataError: a name refers to different files in two of the folders; the message lists all such names.
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
            f"{len(clashes)} images have the same name but different content in two folders:\n{format_items(clashes)}\n"
            f"Keep in these folders only the images that belong to the benchmark."
        )
    default = next((folder for name in copies for folder in present if folder / name in copies[name]), None)
    if default is None:
        return None
    return [copies[name][0] if copies[name] else default / name for name in names]


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths are the same file, or files of equal content."""
    return one.samefile(other) or filecmp.cmp(one, other, shallow=False)
