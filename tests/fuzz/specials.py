"""What is not a plain file: devices, FIFOs, sockets and links in a sandbox, as outputs and as inputs."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from special_files import make_socket

FOLDER = "special"  # in the sandboxes of targets whose arguments are mutated
NULL = Path("/dev/null")
# Names of what lies there; what an argument may say.
NAMES = ("fifo", "null", "socket", "link", "dangling", "loop", "folder", "block", "aim")
ARGUMENTS = tuple(f"{FOLDER}/{name}" for name in (*NAMES, "null/x", "folder/x"))
_MAKERS: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "null": lambda path: os.mknod(path, stat.S_IFCHR | 0o666, NULL.stat().st_rdev),
    "block": lambda path: os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 250)),
    "socket": make_socket,
    "link": lambda path: path.symlink_to("../../secret.png"),
    "dangling": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
    "folder": lambda path: path.symlink_to("aim"),
    "aim": Path.mkdir,
}


def make_special(name: str, path: Path) -> None:
    """Make one of ``NAMES``; only root makes devices, for others there is nothing at that path."""
    with suppress(PermissionError):
        _MAKERS[name](path)


def make_all(box: Path) -> None:
    """Make the folder with one of each."""
    (box / FOLDER).mkdir()
    for name in NAMES:
        make_special(name, box / FOLDER / name)


def describe(box: Path) -> dict[str, tuple[int, int, str]]:
    """Return path -> type, device and where it leads, of all in a sandbox that is neither a plain file nor a folder."""
    found = {"/dev/null": (stat.S_IFMT(NULL.lstat().st_mode), NULL.lstat().st_rdev, "")}
    for folder, folders, names in os.walk(box):
        for name in (*folders, *names):
            path = Path(folder, name)
            about = path.lstat()
            if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
                to = str(path.readlink()) if stat.S_ISLNK(about.st_mode) else ""
                found[path.relative_to(box).as_posix()] = (stat.S_IFMT(about.st_mode), about.st_rdev, to)
    return found


def copy_node(source: str, target: str) -> None:
    """Copy a plain file; of what is none make another one of its type. For ``shutil.copytree``."""
    about = os.lstat(source)
    if stat.S_ISREG(about.st_mode):
        shutil.copy2(source, target)
    else:
        os.mknod(target, about.st_mode, about.st_rdev)


@contextmanager
def attended(paths: list[Path]) -> Iterator[None]:
    """Have FIFOs read until the block ends, and written to by nobody: who reads one finds its end at once."""
    done = threading.Event()
    threads = [threading.Thread(target=_attend, args=(path, done), daemon=True) for path in paths]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def _attend(path: Path, done: threading.Event) -> None:
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    while not done.wait(0.02):
        with suppress(OSError):  # it was removed
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        with suppress(BlockingIOError):
            while os.read(reader, 65536):
                pass
    os.close(reader)
