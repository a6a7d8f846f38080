"""Files: written whole or not at all, and named by their content."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from caramel.errors import ConfigError, DataError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with a temporary name beside ``path``, then rename: all or nothing.

    File and folder are synced, so that after a power cut there is the old file or the whole new one.
    The temporary name is drawn at random: processes of two machines that share a folder can have
    the same number. It is absolute: libraries take a relative one such as ``a:b/c`` for a URL.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.absolute().with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        write(temporary)
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)
    except OSError as error:
        if error.errno and not error.filename:  # of a write that fails, the system does not say the file
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def keep_inputs(written: Iterable[Path], read: Iterable[Path]) -> None:
    """Raise if something that will be written is a file that is read, or lies in a folder that is.

    However the paths are spelled: links are followed, and the system says what is the same file. What is not there
    yet lies in the folders that are.

    Raises:
        ConfigError: nothing is written over what was read.
    """
    sources = [path for path in read if path.exists()]
    for target in written:
        whole = target.resolve()
        there = [place for place in (whole, *whole.parents) if place.exists()]
        for source in sources:
            if any(place.samefile(source) for place in there):
                what = "is read" if source.is_file() else f"lies in {str(source)!r}, which is read"
                raise ConfigError(
                    f"{str(target)!r} {what}: nothing is written over an input. Give another place with --out."
                )


def _sync(path: Path) -> None:
    """Have the system write a file or the names of a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_hash(path: str | Path) -> str:
    """Return the SHA-256 of a file, or of all files of a folder with their names.

    Raises:
        DataError: there is nothing of that name.
    """
    path = Path(path)
    if path.is_file():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    if not path.is_dir():
        raise DataError(f"{str(path)!r} is missing. Run `dvc repro` to make it.")
    names = sorted(p for p in path.rglob("*") if p.is_file())
    listing = "".join(f"{p.relative_to(path)} {file_hash(p)}\n" for p in names)
    return hashlib.sha256(listing.encode()).hexdigest()
