"""The volumes that a project lies on: whether there is room, and whether they can be written.

``data/``, ``work/``, ``mlruns/`` and the folder for temporary files may each be a volume of its own. Libraries
report a full one in ways of their own (torch: RuntimeError, SQLite: "disk I/O error"), so that the volume is asked.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from caramel.errors import CaramelError, ResourceError

FULL = 16 * 2**20  # bytes: a volume with less free is full
ROOM = {  # folder of the project -> how room is made on its volume
    ".dvc/cache": "`dvc gc -w` drops old versions of the data",
    "work": "what work/ keeps of finished stages may be deleted",
}
SPENT = (errno.ENOSPC, errno.EDQUOT)


def volume_of(path: str | Path) -> Path:
    """Return the mount point of the volume that a path lies on, or would lie on."""
    place = _nearest(path)
    while not place.is_mount():
        place = place.parent
    return place


def trouble(path: str | Path) -> str | None:
    """Return why nothing can be written in a folder, which need not be there yet, with its volume and what to do; None if all is well."""
    path = Path(path)
    link = next((p for p in (path, *path.parents) if p.is_symlink() and not p.exists()), None)
    if link is not None:
        return f"{path} cannot be written: {link} is a link to {link.readlink()}, which is not there. Mount or make it."
    place = _nearest(path)
    if not place.is_dir():
        return f"{path} cannot be written: {place} is a file, not a folder. Move it away."
    stats = os.statvfs(place)
    if stats.f_flag & os.ST_RDONLY:
        return f"{path} cannot be written: {_cure(path, errno.EROFS)}"
    if _is_short(place):
        return f"no space left for {path}: {_cure(path, errno.ENOSPC)}"
    if not os.access(place, os.W_OK):
        return f"{path} cannot be written: this user may not write in {place}. Change its permissions."
    return None


def require(paths: Iterable[str | Path]) -> None:
    """Raise a ResourceError if one of the paths cannot be written, or its volume is full."""
    found = list(dict.fromkeys(said for path in paths if (said := trouble(path))))
    if found:
        raise ResourceError("\n".join(found))


def blamed(error: BaseException, paths: Iterable[str | Path]) -> str | None:
    """Return what an error says of a full or read-only volume, None if it has another cause.

    Of the two files of a copy the second is written. A volume that has room is blamed only where none is full.

    Args:
        error: what was raised, perhaps by a library that wraps the system's error.
        paths: of what is written: whose volumes are asked where the error does not say.
    """
    if isinstance(error, CaramelError):
        return None
    places = [Path(path) for path in paths]
    system = [e for e in _chain(error) if _number(e) in (*SPENT, errno.EROFS)]
    names = [(e.filename2 or e.filename, e.errno or 0) for e in system if isinstance(e, OSError)]
    named = next(((Path(name), number) for name, number in names if isinstance(name, str)), None)
    if named is not None:
        path, number = named
        if number not in SPENT:
            return f"cannot write {path}: {_cure(path, number)}"
        path = next((each for each in (path, *places) if _is_short(_nearest(each))), path)
        return f"no space left for {path}: {_cure(path, number)}"
    found = next(filter(None, map(trouble, places)), None)
    if found is None and system and places:  # what was half written may be gone again: the fullest it was
        fullest = min(places, key=lambda place: shutil.disk_usage(_nearest(place)).free)
        found = f"no space left, perhaps for {fullest}: {_cure(fullest, errno.ENOSPC)}"
    return found and f"{found} ({type(error).__name__}: {str(error).partition(chr(10))[0]:.200})"


def _number(error: BaseException) -> int | None:
    """Return the system's number of an error; libraries in Rust, such as safetensors, give it in words."""
    said = re.search(r"\(os error (\d+)\)", str(error))
    return error.errno if isinstance(error, OSError) else int(said[1]) if said else None


def room(volume: Path) -> str:
    """Return how room is made on a volume, where something of this project that may go lies there; else nothing."""
    hints = [said for place, said in ROOM.items() if Path(place).exists() and volume_of(place) == volume]
    return "; ".join(hints)


def _cure(path: Path, number: int) -> str:
    """Return which volume a path lies on, and what to do where it is full or read-only."""
    volume = volume_of(path)
    if number == errno.EROFS:
        return f"its volume {volume} is read-only. Mount it for writing, or put a link to another one there."
    free = shutil.disk_usage(_nearest(path)).free >> 20
    how = f": {hints}" if (hints := room(volume)) else ""
    if _lacks_inodes(_nearest(path)):
        return (
            f"its volume {volume} has {free} MiB free, but no inodes for new files. Remove files there{how}."
        )
    return f"its volume {volume} has {free} MiB free. Make room there{how}."


def _is_short(place: Path) -> bool:
    """Return whether the volume of something that is there has no room, or no inodes."""
    return shutil.disk_usage(place).free < FULL or _lacks_inodes(place)


def _lacks_inodes(place: Path) -> bool:
    stats = os.statvfs(place)
    return bool(stats.f_files) and not stats.f_favail  # some file systems count none


def _nearest(path: str | Path) -> Path:
    """Return the path, resolved, or the nearest folder above it that is there."""
    place = Path(os.path.realpath(path))  # a circle of links, too
    while not place.exists():
        place = place.parent
    return place


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what led to it."""
    each: BaseException | None = error
    seen: set[int] = set()
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__
