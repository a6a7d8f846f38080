"""Read files in zip archives in place. Nothing is unpacked to the disk, so no member name is used as a path.

The unpacked size of a member is checked before reading: ``zipfile`` yields no more bytes than the archive
states.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TextIO

from caramel.errors import DataError
from caramel.io.validators import format_value

LARGEST = (
    1 << 29
)  # bytes of an unpacked member; about twenty times the largest public file that is read this way
ENCRYPTED = 1  # flag bit of a member


@dataclass(frozen=True)
class ZippedFile:
    """One file in a zip archive."""

    archive: Path
    member: str

    def __str__(self) -> str:
        return f"{self.archive}/{self.member}"

    @property
    def name(self) -> str:
        """The file's name, without folders."""
        return PurePosixPath(self.member).name

    @contextmanager
    def open(self, *, encoding: str, newline: str | None = None) -> Iterator[TextIO]:
        """Open the file as text; the arguments are those of ``Path.open``.

        Raises:
            DataError: the unpacked file is too large, encrypted, or packed by an unknown method.
            OSError, BadZipFile: the archive cannot be read, or is damaged.
        """
        with zipfile.ZipFile(self.archive) as archive:
            about = archive.getinfo(self.member)
            if about.file_size > LARGEST:
                raise DataError(
                    f"{str(self)!r} unpacks to {about.file_size:,} bytes, more than the limit of {LARGEST:,}. Unpack it yourself."
                )
            if about.flag_bits & ENCRYPTED:
                raise DataError(f"{str(self)!r} is encrypted. Unpack it yourself.")
            try:
                packed = archive.open(about)
            except NotImplementedError as error:
                raise DataError(f"{str(self)!r} cannot be unpacked: {error}. Unpack it yourself.") from error
            with packed, io.TextIOWrapper(packed, encoding=encoding, newline=newline) as text:
                yield text


def list_zipped_files(folder: Path) -> dict[str, ZippedFile]:
    """Return all files in the zip archives of a folder and of its subfolders, by name without folders.

    Raises:
        DataError: an archive cannot be read, or two files have the same name.
    """
    files: dict[str, ZippedFile] = {}
    for path in sorted([*folder.glob("*.zip"), *folder.glob("*/*.zip")]):
        for member in _list_members(path):
            file = ZippedFile(path, member)
            if file.name in files:
                raise DataError(
                    f"{format_value(str(file))} and {format_value(str(files[file.name]))} have the same name. Keep only one of them."
                )
            files[file.name] = file
    return files


def _list_members(path: Path) -> list[str]:
    """Return the names of an archive's files, without folders and macOS's own metadata files."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [about.filename for about in archive.infolist() if not about.is_dir()]
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(
            f"{str(path)!r} cannot be read as a zip archive: {error}. Download it again."
        ) from error
    return [name for name in names if not name.startswith("__MACOSX/")]
