"""Check whether the volumes of a project have free space and can be written.

``data/``, ``work/``, ``mlruns/`` and the folder for temporary files may each be on a separate volume.
Libraries report a full volume in different ways (torch: RuntimeError, SQLite: "disk I/O error"), so this
module checks the volume itself.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from caramel.errors import CaramelError, ResourceError

FULL = 16 * 2**20  # bytes: a volume with less free space counts as full
ROOM = {  # folder of the project -> how to free space on its volume
    ".dvc/cache": "`dvc gc -w` drops old versions of the data",
    "work": "the files of finished stages in work/ may be deleted",
}
SPENT = (errno.ENOSPC, errno.EDQUOT)


def find_volume(path: str | Path) -> Path:
    """Return the mount point of the volume that holds a path or would hold it."""
    folder = _find_existing_parent(path)
    while not folder.is_mount():
        folder = folder.parent
    return folder


def find_volume_problem(path: str | Path) -> str | None:
    """Return why nothing can be written in a folder, with its volume and what to do.

    Return None if all is well.

    The folder need not exist yet.
    """
    path = Path(path)
    link = next((p for p in (path, *path.parents) if p.is_symlink() and not p.exists()), None)
    if link is not None:
        return f"{path} cannot be written: {link} is a link to {link.readlink()}, which does not exist. Mount or create it."
    existing = _find_existing_parent(path)
    if not existing.is_dir():
        return f"{path} cannot be written: {existing} is a file, not a folder. Move it away."
    stats = os.statvfs(existing)
    if stats.f_flag & os.ST_RDONLY:
        return f"{path} cannot be written: {_format_cure(path, errno.EROFS)}"
    if _is_short(existing):
        return f"no space left for {path}: {_format_cure(path, errno.ENOSPC)}"
    if not os.access(existing, os.W_OK):
        return f"{path} cannot be written: this user has no permission to write in {existing}. Change its permissions."
    return None


def require_writable(paths: Iterable[str | Path]) -> None:
    """Raise a ResourceError if one of the paths cannot be written or its volume is full."""
    problems = list(dict.fromkeys(problem for path in paths if (problem := find_volume_problem(path))))
    if problems:
        raise ResourceError("\n".join(problems))


def explain_disk_error(error: BaseException, paths: Iterable[str | Path]) -> str | None:
    """Return a message if a full or read-only volume caused an error, or None if the cause is another one.

    Of the two files of a copy, the second is the one written. A volume with free space is named only if no
    volume is full.

    Args:
        error: the error, possibly raised by a library that wraps the system's error.
        paths: paths that were being written. Their volumes are checked if the error names no file.
    """
    if isinstance(error, CaramelError):
        return None
    targets = [Path(path) for path in paths]
    system = [e for e in _iter_error_chain(error) if _get_error_number(e) in (*SPENT, errno.EROFS)]
    names = [(e.filename2 or e.filename, e.errno or 0) for e in system if isinstance(e, OSError)]
    named = next(((Path(name), number) for name, number in names if isinstance(name, str)), None)
    if named is not None:
        path, number = named
        if number not in SPENT:
            return f"cannot write {path}: {_format_cure(path, number)}"
        path = next(
            (candidate for candidate in (path, *targets) if _is_short(_find_existing_parent(candidate))), path
        )
        return f"no space left for {path}: {_format_cure(path, number)}"
    reason = next(filter(None, map(find_volume_problem, targets)), None)
    if reason is None and system and targets:  # the partial file may be gone: take the fullest volume
        fullest = min(targets, key=lambda target: shutil.disk_usage(_find_existing_parent(target)).free)
        reason = f"no space left, perhaps for {fullest}: {_format_cure(fullest, errno.ENOSPC)}"
    return reason and f"{reason} ({type(error).__name__}: {str(error).partition(chr(10))[0]:.200})"


def _get_error_number(error: BaseException) -> int | None:
    """Return the system's error number. Libraries in Rust, such as safetensors, give it in their message."""
    match = re.search(r"\(os error (\d+)\)", str(error))
    return error.errno if isinstance(error, OSError) else int(match[1]) if match else None


def suggest_cleanup(volume: Path) -> str:
    """Return how to free space on a volume by deleting files of this project; empty if it holds no such files."""
    hints = [hint for folder, hint in ROOM.items() if Path(folder).exists() and find_volume(folder) == volume]
    return "; ".join(hints)


def _format_cure(path: Path, number: int) -> str:
    """Return the volume of a path, and what to do if it is full or read-only."""
    volume = find_volume(path)
    if number == errno.EROFS:
        return (
            f"its volume {volume} is read-only. Mount it for writing, or put a link to another volume there."
        )
    free = shutil.disk_usage(_find_existing_parent(path)).free >> 20
    how = f": {hints}" if (hints := suggest_cleanup(volume)) else ""
    if _has_no_inodes(_find_existing_parent(path)):
        return (
            f"its volume {volume} has {free} MiB free, but no inodes for new files. Remove files there{how}."
        )
    return f"its volume {volume} has {free} MiB free. Free some space there{how}."


def _is_short(path: Path) -> bool:
    """Return whether the volume of an existing file or folder is short of space or inodes."""
    return shutil.disk_usage(path).free < FULL or _has_no_inodes(path)


def _has_no_inodes(path: Path) -> bool:
    stats = os.statvfs(path)
    return bool(stats.f_files) and not stats.f_favail  # some file systems report no inodes


def _find_existing_parent(path: str | Path) -> Path:
    """Return the resolved path, or the nearest existing folder above it."""
    existing = Path(os.path.realpath(path))  # also handles a cycle of links
    while not existing.exists():
        existing = existing.parent
    return existing


def _iter_error_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its chain of causes."""
    current: BaseException | None = error
    visited: set[int] = set()
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
