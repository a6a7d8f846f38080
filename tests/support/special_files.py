"""What is not a plain file: devices, FIFOs, sockets and links, made in a folder of the test."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

REFUSED = {
    "link": "link",
    "dangling link": "does not exist",
    "link to itself": "link",
    "link to a device": "link",
    "link to a folder": "link",
}
REFUSED |= {"folder": "folder", "socket": "socket", "block device": "block device"}


def make_node(path: Path, kind: int, major: int, minor: int) -> None:
    """Make a device; only root may."""
    try:
        os.mknod(path, kind | 0o666, os.makedev(major, minor))
    except PermissionError:
        pytest.skip("devices cannot be made here: it takes root")


def make_null(path: Path) -> None:
    """Make a device of its own like ``/dev/null``."""
    make_node(path, stat.S_IFCHR, 1, 3)


def make_full(path: Path) -> None:
    """Make a device of its own like ``/dev/full``."""
    make_node(path, stat.S_IFCHR, 1, 7)


def make_socket(path: Path) -> None:
    """Make a socket that nobody listens at; the system takes no long paths."""
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.open(path.parent, os.O_RDONLY)
        made.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)


def make_refused(name: str, path: Path) -> None:
    """Make one of ``REFUSED`` at a path; what a link leads to lies beside its folder, in ``elsewhere``."""
    elsewhere = path.parent.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    (elsewhere / "file").write_text("mine")
    makers: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(elsewhere / "file"),
        "dangling link": lambda: path.symlink_to(elsewhere / "nothing"),
        "link to itself": lambda: path.symlink_to(path.name),
        "link to a device": lambda: (make_null(elsewhere / "null"), path.symlink_to(elsewhere / "null")),
        "link to a folder": lambda: path.symlink_to(elsewhere),
        "folder": lambda: (path.mkdir(), (path / "mine").write_text("mine")),
        "socket": lambda: make_socket(path),
        "block device": lambda: make_node(path, stat.S_IFBLK, 7, 250),
    }
    makers[name]()


def describe(folder: Path) -> dict[str, tuple[int, int, object]]:
    """Return path -> inode, type and content of all that lies below a folder, no link followed."""
    found: dict[str, tuple[int, int, object]] = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content: object = path.read_bytes() if stat.S_ISREG(about.st_mode) else about.st_rdev
        if stat.S_ISLNK(about.st_mode):
            content = str(path.readlink())
        found[str(path.relative_to(folder))] = (about.st_ino, stat.S_IFMT(about.st_mode), content)
    return found
