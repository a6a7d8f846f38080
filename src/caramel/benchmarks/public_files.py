"""What the readers of public release formats share: which files and folders a release has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from caramel.errors import DataError
from caramel.storage.records import parquet


def found(folder: Path, names: Iterable[str], layout: str) -> list[Path]:
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


def parquet_files(folder: Path, pattern: str, columns: Sequence[str], layout: str) -> list[Path]:
    """Return the Parquet files of a pattern, in order of their names; each has at least these columns.

    Raises:
        DataError: there is none, one is broken, or lacks a column.
    """
    files = sorted(folder.glob(pattern))
    if not files:
        raise DataError(f"{str(folder)!r} holds no {pattern}. Expected layout:\n{layout}")
    for path in files:
        with parquet(path, columns):
            pass
    return files


def image_folder(images: Path, names: Sequence[str], folders: Sequence[str]) -> Path:
    """Return the folder, ``images`` itself or one of these below it, that holds the images.

    It is the first that holds any of the images; ``images`` if none does, so that the check of the images can
    list all that are missing.
    """
    return first_holding([images, *(images / name for name in folders)], names) or images


def first_holding(folders: Sequence[Path], names: Sequence[str]) -> Path | None:
    """Return the first of the folders that holds any of the named files, None if none does."""
    for some in (names[:20], names[20:]):  # nearly always the first ones tell
        for folder in folders:
            if any((folder / name).is_file() for name in some):
                return folder
    return None
