"""Files: written whole or not at all, named by their content, and checked before they are used again."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from caramel.errors import ConfigError, DataError, ResourceError
from caramel.io.disk_space import explain_disk_error
from caramel.io.output_paths import (
    apply_mode,
    check_target,
    copy_into_stream,
    is_stream,
    measure_fresh_mode,
    remove_results,
)

if TYPE_CHECKING:
    import pandas as pd

RANDOM = 6  # bytes drawn for a temporary name, written in hex
DIGITS = 32  # of a kept file's SHA-256 that stand in its name


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with a temporary name beside ``path``, then rename: all or nothing.

    File and folder are synced, so that after a power cut there is the old file or the whole new one.
    The temporary name is drawn at random: processes of two machines that share a folder can have
    the same number. It is absolute: libraries take a relative one such as ``a:b/c`` for a URL.

    A file that was there is replaced and keeps its permissions. A device such as ``/dev/null``, a FIFO and
    ``/dev/stdout`` are written into, when all is written; see ``targets``.

    Raises:
        ConfigError: the path is a link, a folder, a block device or a socket.
        ResourceError: the volume is full or read-only.
    """
    if is_stream(path):
        _write_stream(path, write)
    else:
        _write_and_rename(path, write, lambda _: path)


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8; as ``write_atomically`` does, with its errors."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, value: object) -> None:
    """Write a JSON file; as ``write_atomically`` does, with its errors."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_csv(path: Path, rows: pd.DataFrame) -> None:
    """Write a CSV file without the index; as ``write_atomically`` does, with its errors."""
    write_text(path, format_csv(rows))


def format_csv(rows: pd.DataFrame) -> str:
    """Return a table as CSV, without the index: a carriage return in a cell ends no row."""
    text = rows.to_csv(index=False)
    if "\r" in text:  # Python quotes it only where lines end in it
        text = rows.to_csv(index=False, lineterminator="\r\n")
    return text


def save_hashed(path: Path, write: Callable[[Path], object]) -> Path:
    """Write a result that will be used again, as ``write_atomically`` does; return where it lies.

    ``folder/name.suffix`` becomes ``folder/name.HASH.suffix``. Content and checksum come into being by one
    rename, so nothing that is killed can part them.

    Raises:
        ConfigError: at that place is something else than a plain file.
        ResourceError: the volume is full or read-only.
    """
    return _write_and_rename(
        path, write, lambda t: path.with_name(f"{path.stem}.{compute_file_hash(t)[:DIGITS]}{path.suffix}")
    )


def load_hashed(folder: Path, suffix: str, names: Container[str] | None = None) -> dict[str, Path]:
    """Return name -> file of what ``keep`` wrote into a folder and is whole; see ``is_whole``.

    Args:
        folder: there may be no such folder.
        suffix: of the files, with its dot.
        names: those that are wanted; None: all.
    """
    files: dict[str, Path] = {}
    for path in sorted(folder.glob(f"*{suffix}")):
        name = path.stem.rpartition(".")[0]
        if (names is None or name in names) and verify_hash(path):
            files[name] = path
    return files


def verify_hash(path: Path) -> bool:
    """Return whether a kept file is as it was written; if not, say so in a line and remove it."""
    try:
        if path.is_file() and compute_file_hash(path)[:DIGITS] == path.stem.rpartition(".")[2]:
            return True
    except (DataError, FileNotFoundError):  # another process has just found it broken
        return False
    if path.exists():
        discard_results(path, "it is not as it was written")
    return False


def remove_damaged(folder: Path) -> None:
    """Remove what ``keep`` wrote into a folder and is not whole; see ``is_whole``."""
    for path in sorted(folder.glob("*")):
        if has_hashed_name(path):
            verify_hash(path)


def discard_results(path: Path, reason: str) -> None:
    """Remove a file or folder of results, and say in a line why.

    Raises:
        ConfigError: it is a device, a FIFO or a socket, which stays.
    """
    remove_results(path)
    print(f"\nRemoved {str(path)!r}: {reason}. What it held is made again.", file=sys.stderr)


def create_empty_folder(folder: Path) -> Path:
    """Make the folder, empty, whatever an earlier run left at its place; return it.

    Raises:
        ConfigError: at its place is a device, a FIFO or a socket.
    """
    remove_results(folder)
    folder.mkdir(parents=True)
    return folder


def hash_files(folder: Path) -> dict[str, str]:
    """Return path in the folder -> SHA-256 of all files in it but those that ``keep`` wrote."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not has_hashed_name(path))
    return {str(path.relative_to(folder)): compute_file_hash(path) for path in files}


def list_parquet_files(source: Path) -> list[Path]:
    """Return a file that is called .parquet, or those of a folder, in order; none where there is nothing.

    Raises:
        DataError: it is a file that is called otherwise.
    """
    if source.is_dir():
        return sorted(path for path in source.glob("*") if path.suffix.lower() == ".parquet")
    if source.suffix.lower() == ".parquet":
        return [source]
    if source.exists():
        raise DataError(f"{str(source)!r} is no table: tables are files of Parquet, called .parquet.")
    return []


def has_hashed_name(path: Path) -> bool:
    """Return whether a file has a name that ``keep`` gives."""
    digits = path.stem.rpartition(".")[2]
    return len(digits) == DIGITS and set(digits) <= set("0123456789abcdef")


def remove_temporaries(path: Path) -> None:
    """Remove what writers that were killed left beside a file; only for who knows that none is at work."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{{2 * RANDOM}}}")
    for other in path.parent.glob(".*") if path.parent.is_dir() else ():
        if name.fullmatch(other.name) and other.is_file() and not other.is_symlink():
            other.unlink()


def _name_temporary(path: Path) -> Path:
    return path.absolute().with_name(f".{path.name}.{secrets.token_hex(RANDOM)}")


def _write_and_rename(
    path: Path, write: Callable[[Path], object], choose_target: Callable[[Path], Path]
) -> Path:
    """Write under a temporary name beside ``path``, then rename to the place that the file is given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    check_target(path)
    temporary = _name_temporary(path)
    try:
        fresh_mode = measure_fresh_mode(temporary)
        write(temporary)
        final = choose_target(temporary)
        check_target(final)
        apply_mode(temporary, final, fresh_mode)
        _sync_path(temporary)
        os.replace(temporary, final)
        _sync_path(path.parent)
    except Exception as error:
        _name_file(error, temporary, path)
        # Asked while what is half written is still there: without it the volume has room again.
        if message := explain_disk_error(error, [path.parent]):
            raise ResourceError(
                f"{str(path)!r} was not written: {message} Then run the same command again."
            ) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)
    return final


def _write_stream(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a folder of temporary files, then copy into a stream: libraries write only what they can seek in."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = _name_temporary(Path(folder, path.name))
        try:
            write(temporary)
        except Exception as error:
            if message := explain_disk_error(error, [temporary]):
                raise ResourceError(
                    f"{str(path)!r} was not written: {message} Then run the same command again."
                ) from error
            raise
        copy_into_stream(temporary, path)


def _name_file(error: Exception, temporary: Path, path: Path) -> None:
    """Have an error of the system name the file that was meant: of a write that fails it says none, or the temporary name."""
    if isinstance(error, OSError) and error.errno:
        if error.filename in (None, str(temporary)):
            error.filename = str(path)
        if error.filename2 == str(temporary):
            error.filename2 = str(path)


def forbid_overwriting_inputs(written: Iterable[Path], read: Iterable[Path]) -> None:
    """Raise if something that will be written is a file that is read, or lies in a folder that is.

    A folder further inside is free where it is new, or holds nothing but what is written: no reader looks there.
    However the paths are spelled: links are followed, and the system says what is the same file. What cannot be written
    at all, such as a file through a link, is said here, too: before any work.

    Raises:
        ConfigError: nothing is written over what was read; see also ``check_target``.
    """
    sources = [path for path in read if path.exists()]
    written = [*written]
    targets = {Path(os.path.realpath(target)): target for target in written}  # a circle of links, too
    for whole, target in targets.items():
        for source in sources:
            if whole.exists() and whole.samefile(source):
                what = "is read"
            elif _is_inside(whole, source) and not _is_room(whole.parent, source, targets):
                what = f"lies in {str(source)!r}, which is read"
            else:
                continue
            raise ConfigError(
                f"{str(target)!r} {what}: nothing is written over an input. Give another place with --out."
            )
    for target in written:
        if not target.is_dir():  # it may be the folder of what is written
            check_target(target)


def _is_inside(path: Path, folder: Path) -> bool:
    return any(parent.exists() and parent.samefile(folder) for parent in path.parents)


def _is_room(folder: Path, source: Path, targets: Container[Path]) -> bool:
    """Return whether a folder inside of a source is new, or holds nothing but targets."""
    if not folder.exists():
        return True
    return (
        folder.is_dir() and not folder.samefile(source) and all(path in targets for path in folder.iterdir())
    )


def _sync_path(path: Path) -> None:
    """Have the system write a file or the names of a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some shared file systems cannot sync a folder
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def compute_file_hash(path: str | Path) -> str:
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
    listing = "".join(f"{p.relative_to(path)} {compute_file_hash(p)}\n" for p in names)
    return hashlib.sha256(listing.encode()).hexdigest()
