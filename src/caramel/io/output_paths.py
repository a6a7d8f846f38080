"""Decide which paths may be written and which removed. All writers use these checks.

- A file is new, or replaces a plain file.
- A character device, a FIFO and an open descriptor of this process (``/dev/stdout``) are written into.
- Links, folders, block devices and sockets are refused: only a plain file is replaced or removed.
- Links among the folders above a file are followed, because ``data/`` and ``work/`` may be separate volumes.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from caramel.errors import ConfigError

DESCRIPTORS = Path("/proc/self/fd")  # target of /dev/stdout and /dev/fd on Linux
_MOST_LINKS = 40  # consecutive links, as on Linux; more count as a cycle
_NAMES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFIFO: "a FIFO",
}


def check_target(path: Path) -> None:
    """Raise unless a file can be written at a path without damage to what exists there.

    Raises:
        ConfigError: the path is a folder, a link, a block device or a socket.
    """
    if (mode := _read_mode(path)) is None or stat.S_ISREG(mode) or is_stream(path):
        return
    if stat.S_ISLNK(mode):
        # A dangling link and a link to itself have no target.
        end = f"{os.path.realpath(path)!r}" + ("" if path.exists() else ", which does not exist")
        raise ConfigError(
            f"{str(path)!r} is a link to {end}: caramel does not write through links. Give the file itself, or remove "
            f"the link."
        )
    raise ConfigError(
        f"{str(path)!r} is {_NAMES[stat.S_IFMT(mode)]} and cannot be replaced by a file. Give another path."
    )


def check_folder(path: Path) -> None:
    """Raise if a folder inside the one that a user gave is a link, which could lead out of it.

    Raises:
        ConfigError: the folder is a link.
    """
    if path.is_symlink():
        raise ConfigError(
            f"{str(path)!r} is a link to {os.path.realpath(path)!r}: caramel does not write through links. Remove it, or "
            f"name another folder."
        )


def is_stream(path: Path) -> bool:
    """Return whether a path is written into, not replaced: a device, FIFO or descriptor of this process."""
    mode = _read_mode(path)
    return mode is not None and (
        stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or _find_descriptor(path) is not None
    )


def copy_into_stream(source: Path, path: Path) -> None:
    """Write the bytes of a file into a stream. A FIFO waits for its reader, as with any program.

    Raises:
        ConfigError: the descriptor is not open for writing.
        OSError: the device is full, or the reader has closed it.
    """
    number = _find_descriptor(path)
    # A descriptor is used as it is: writing continues at the offset of the file that the shell opened.
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY) if number is None else os.dup(number)
        with source.open("rb") as stream, os.fdopen(descriptor, "wb") as to:
            shutil.copyfileobj(stream, to)
    except OSError as error:
        if number is not None and error.errno == errno.EBADF:
            raise ConfigError(f"{str(path)!r} is not open for writing. Give another path.") from error
        error.filename = str(path)
        raise


def remove_file(path: Path) -> None:
    """Remove a plain file that an earlier run wrote. Streams are kept, and a missing file is not an error.

    Raises:
        ConfigError: as in ``check_target``.
    """
    check_target(path)
    if not is_stream(path):
        path.unlink(missing_ok=True)


def remove_results(path: Path) -> None:
    """Remove a file, a link or a whole folder of results.

    A missing path is not an error, and no link is followed.

    Raises:
        ConfigError: the path is a device, a FIFO or a socket.
    """
    if (mode := _read_mode(path)) is None:
        return
    if stat.S_ISDIR(mode):
        with suppress(FileNotFoundError):  # another process may remove it too
            shutil.rmtree(path)
    elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
        path.unlink(missing_ok=True)
    else:
        raise ConfigError(
            f"{str(path)!r} is {_NAMES[stat.S_IFMT(mode)]}, but a file or folder of results is expected. Move it away."
        )


def apply_mode(new: Path, old: Path, fresh_mode: int) -> None:
    """Give a file the permissions of the plain file that it will replace, or of a new file if none exists.

    A file that root writes stays with the old file's owner. If the new file has several names, its
    permissions do not change, because they also apply to its other names.

    Args:
        new: the file under its temporary name.
        old: its final path.
        fresh_mode: permissions that ``open`` gives a new file in that folder.
    """
    status = new.stat()
    if status.st_nlink > 1:
        return
    with suppress(FileNotFoundError):
        replaced = old.stat()
        fresh_mode = stat.S_IMODE(replaced.st_mode) & 0o777
        if os.geteuid() == 0 and (status.st_uid, status.st_gid) != (replaced.st_uid, replaced.st_gid):
            _give_to(new, replaced.st_uid, replaced.st_gid)
    if stat.S_IMODE(status.st_mode) != fresh_mode:
        new.chmod(fresh_mode)


def _give_to(path: Path, user: int, group: int) -> None:
    try:
        os.chown(path, user, group)
    except OSError as error:  # root of a container that does not know the owner
        if error.errno not in (errno.EPERM, errno.EINVAL):
            raise


def measure_fresh_mode(path: Path) -> int:
    """Return the permissions that ``open`` gives a new file.

    One is created, since a folder can have its own defaults.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)
        path.unlink()


def _read_mode(path: Path) -> int | None:
    """Return the type and permissions of a path without following links, or None if it does not exist."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _find_descriptor(path: Path) -> int | None:
    """Return the descriptor of this process that a link leads to, or None for any other path."""
    for _ in range(_MOST_LINKS):
        if not path.is_symlink():
            return None
        folder = Path(os.path.realpath(path.parent))  # accepts a cycle of links
        if folder == DESCRIPTORS.resolve():
            return int(path.name)
        path = folder / path.readlink()
    return None
