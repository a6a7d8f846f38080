"""Write files atomically, name results by their content, and verify them before they are used again."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import sys
import tempfile
from collections import Counter
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

RANDOM = 6  # random bytes in a temporary name, written in hex
DIGITS = 32  # hex digits of a hashed file's SHA-256 in its name


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with a temporary name beside ``path``, then rename: all or nothing.

    File and folder are synced, so that a power cut leaves either the old file or the complete new one. The
    temporary name is random, because processes of two machines that share a folder can have the same process
    number. It is absolute, because libraries take a relative name such as ``a:b/c`` for a URL.

    An existing file is replaced, and the new file gets its permissions. A device such as ``/dev/null``, a
    FIFO and ``/dev/stdout`` are written into once everything is written; see ``output_paths``.

    Raises:
        ConfigError: the path is a link, a folder, a block device or a socket.
        ResourceError: the volume is full or read-only.
    """
    if is_stream(path):
        _write_stream(path, write)
    else:
        _write_and_rename(path, write, lambda _: path)


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, as ``write_atomically`` does and with its errors."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, value: object) -> None:
    """Write a JSON file, as ``write_atomically`` does and with its errors."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_csv(path: Path, rows: pd.DataFrame) -> None:
    """Write a CSV file without the index, as ``write_atomically`` does and with its errors."""
    write_text(path, format_csv(rows))


def format_csv(rows: pd.DataFrame) -> str:
    """Return a table as CSV without the index. A carriage return in a cell does not end a row."""
    text = rows.to_csv(index=False)
    if "\r" in text:  # Python quotes it only if lines end with it
        text = rows.to_csv(index=False, lineterminator="\r\n")
    return text


def save_hashed(path: Path, write: Callable[[Path], object]) -> Path:
    """Write a result for later reuse, as ``write_atomically`` does, and return its path.

    ``folder/name.suffix`` becomes ``folder/name.HASH.suffix``. One rename creates content and checksum
    together, so that a kill cannot separate them.

    Raises:
        ConfigError: the path exists and is not a plain file.
        ResourceError: the volume is full or read-only.
    """
    return _write_and_rename(
        path, write, lambda t: path.with_name(f"{path.stem}.{compute_file_hash(t)[:DIGITS]}{path.suffix}")
    )


def load_hashed(folder: Path, suffix: str, names: Container[str] | None = None) -> dict[str, Path]:
    """Return the intact files that ``save_hashed`` wrote into a folder, by name; see ``verify_hash``.

    Args:
        folder: folder of the files; it need not exist.
        suffix: suffix of the files, with its dot.
        names: names to return; None: all.
    """
    files: dict[str, Path] = {}
    for path in sorted(folder.glob(f"*{suffix}")):
        name = path.stem.rpartition(".")[0]
        if (names is None or name in names) and verify_hash(path):
            files[name] = path
    return files


def verify_hash(path: Path) -> bool:
    """Return whether a hashed file is unchanged. If it is not, print a line and remove it."""
    try:
        if path.is_file() and compute_file_hash(path)[:DIGITS] == path.stem.rpartition(".")[2]:
            return True
    except (DataError, FileNotFoundError):  # another process has just removed it
        return False
    if path.exists():
        discard_results(path, "its content has changed since it was written")
    return False


def remove_damaged(folder: Path) -> None:
    """Remove damaged files that ``save_hashed`` wrote into a folder; see ``verify_hash``."""
    for path in sorted(folder.glob("*")):
        if has_hashed_name(path):
            verify_hash(path)


def discard_results(path: Path, reason: str) -> None:
    """Remove a file or folder of results, and print the reason.

    Raises:
        ConfigError: the path is a device, a FIFO or a socket, which is not removed.
    """
    remove_results(path)
    print(f"\nRemoved {str(path)!r}: {reason}. Its content is computed again.", file=sys.stderr)


def create_empty_folder(folder: Path) -> Path:
    """Create the folder, remove whatever an earlier run left in it, and return it.

    Raises:
        ConfigError: the path is a device, a FIFO or a socket.
    """
    remove_results(folder)
    folder.mkdir(parents=True)
    return folder


def hash_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder by relative path, except files of ``save_hashed``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not has_hashed_name(path))
    return {str(path.relative_to(folder)): compute_file_hash(path) for path in files}


def list_parquet_files(source: Path) -> list[Path]:
    """Return a .parquet file itself, or the sorted .parquet files of a folder, or nothing if it is missing.

    Raises:
        DataError: the path is a file without the suffix .parquet.
    """
    if source.is_dir():
        return sorted(path for path in source.glob("*") if path.suffix.lower() == ".parquet")
    if source.suffix.lower() == ".parquet":
        return [source]
    if source.exists():
        raise DataError(f"{str(source)!r} is not a table: tables are Parquet files with the suffix .parquet.")
    return []


def has_hashed_name(path: Path) -> bool:
    """Return whether a file has a name that ``save_hashed`` gives."""
    digits = path.stem.rpartition(".")[2]
    return len(digits) == DIGITS and set(digits) <= set("0123456789abcdef")


def remove_temporaries(path: Path) -> None:
    """Remove what killed writers left beside a file. The caller must know that no writer is running."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{{2 * RANDOM}}}")
    for other in path.parent.glob(".*") if path.parent.is_dir() else ():
        if name.fullmatch(other.name) and other.is_file() and not other.is_symlink():
            other.unlink()


def _name_temporary(path: Path) -> Path:
    return path.absolute().with_name(f".{path.name}.{secrets.token_hex(RANDOM)}")


def _write_and_rename(
    path: Path, write: Callable[[Path], object], choose_target: Callable[[Path], Path]
) -> Path:
    """Write under a temporary name beside ``path``, then rename to the chosen target."""
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
        # Checked while the partial file still exists: without it the volume would have space again.
        if message := explain_disk_error(error, [path.parent]):
            raise ResourceError(
                f"{str(path)!r} was not written: {message} Then run the same command again."
            ) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)
    return final


def _write_stream(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a temporary file, then copy it into a stream: libraries can write only to seekable files."""
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
    """Make a system error name the intended file.

    After a failed write it names no file, or the temporary one.
    """
    if isinstance(error, OSError) and error.errno:
        if error.filename in (None, str(temporary)):
            error.filename = str(path)
        if error.filename2 == str(temporary):
            error.filename2 = str(path)


def forbid_overwriting_inputs(written: Iterable[Path], read: Iterable[Path]) -> None:
    """Raise if a file to be written is an input, or lies in a folder that is an input.

    A subfolder is allowed if it is new or holds only output files, because no reader looks there. Links are
    followed, and the system decides which paths are the same file. A path that cannot be written at all, such
    as a file through a link, is also reported here, before any work is done.

    Raises:
        ConfigError: an output would overwrite an input or another output; see also ``check_target``.
    """
    sources = [path for path in read if path.exists()]
    written = [*written]
    targets = {Path(os.path.realpath(target)): target for target in written}  # also handles a cycle of links
    if len(targets) < len(written):
        same = next(path for path, times in Counter(map(os.path.realpath, written)).items() if times > 1)
        raise ConfigError(f"Two outputs are to be written to {same!r}. Give each a path of its own.")
    for whole, target in targets.items():
        for source in sources:
            if whole.exists() and whole.samefile(source):
                what = "is an input"
            elif _is_inside(whole, source) and not _is_room(whole.parent, source, targets):
                what = f"lies in {str(source)!r}, which is an input"
            else:
                continue
            raise ConfigError(
                f"{str(target)!r} {what}, and inputs are never overwritten. Give another path with --out."
            )
    for target in written:
        if not target.is_dir():  # the target may be an output folder
            check_target(target)


def _is_inside(path: Path, folder: Path) -> bool:
    return any(parent.exists() and parent.samefile(folder) for parent in path.parents)


def _is_room(folder: Path, source: Path, targets: Container[Path]) -> bool:
    """Return whether a folder inside a source is new or holds only targets."""
    if not folder.exists():
        return True
    return (
        folder.is_dir() and not folder.samefile(source) and all(path in targets for path in folder.iterdir())
    )


def _sync_path(path: Path) -> None:
    """Make the system write a file, or a folder's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some shared file systems cannot sync a folder
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def compute_file_hash(path: str | Path) -> str:
    """Return the SHA-256 of a file, or of all files of a folder and their names.

    Raises:
        DataError: the path does not exist.
    """
    path = Path(path)
    if path.is_file():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    if not path.is_dir():
        raise DataError(f"{str(path)!r} is missing. Run `dvc repro` to create it.")
    names = sorted(p for p in path.rglob("*") if p.is_file())
    listing = "".join(f"{p.relative_to(path)} {compute_file_hash(p)}\n" for p in names)
    return hashlib.sha256(listing.encode()).hexdigest()
