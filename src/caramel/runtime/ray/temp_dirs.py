"""Create private folders for Ray's temporary files: sockets, logs, and objects that do not fit into memory.

Ray itself uses ``/tmp/ray``, which every user of the machine can read and change. Here each session has its
own folder, ``ROOT/caramel-UID/N``, and only its owner can enter ``caramel-UID``. A session's folder is
removed when the session ends. Files of a killed process are removed when the next session begins. Names are
short, because a socket's path may have at most 107 bytes.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from caramel.errors import ResourceError

SHARED = Path("/tmp")
LONGEST = 107  # bytes of the path of a Unix socket
# The longest path that Ray adds to the folder: a session's name ends with a process number.
ADDED = "/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
ENDING = 10.0  # seconds for killed processes to end
LOCK_WAIT = 60.0  # seconds; another session holds the lock while it removes files of a killed one


def get_temporary_root() -> Path:
    """Return the parent of Ray's private folders.

    ``RAY_TMPDIR``, else ``TMPDIR`` if it is short enough, else /tmp.
    """
    if named := os.environ.get("RAY_TMPDIR"):
        return Path(named).absolute()
    root = Path(os.environ.get("TMPDIR") or SHARED).absolute()
    return root if _is_short(root / _format_folder_name() / "10") else SHARED


@contextmanager
def create_session_folder() -> Iterator[Path]:
    """Yield an empty, private folder for one session of Ray, and remove it after the block.

    Raises:
        ResourceError: this user's folder is another user's, a link or open to others, or its path is too
            long.
    """
    private = _require_private(get_temporary_root() / _format_folder_name())
    try:
        with FileLock(private / "lock", timeout=LOCK_WAIT):
            _remove_abandoned(private)
            folder, lock = _claim_folder(private)
    except Timeout:
        raise ResourceError(
            f"Another process has held the lock {str(private / 'lock')!r} for {LOCK_WAIT:g} s; `fuser` names it. End it, or "
            f"set RAY_TMPDIR to another folder."
        ) from None
    # While it is open, no new folder has its inode number.
    held = os.open(private, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        try:
            _remove_folder(folder)
            lock.release()
            _remove_replacement(private, folder, held)
        finally:
            os.close(held)


def clear_session_folder(folder: Path) -> None:
    """End the processes in a session's folder and their descendants, by number; then empty the folder.

    Raises:
        ResourceError: this user's folder was removed, and is no longer private.
    """
    _end_processes(folder)
    _remove_folder(folder)
    _require_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def _end_processes(folder: Path) -> None:
    """End the processes that work in a session's folder and all their descendants."""
    family = _find_processes(folder)
    for process in [*family]:
        with suppress(psutil.NoSuchProcess):
            family += process.children(recursive=True)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, timeout=ENDING)


def _remove_replacement(private: Path, folder: Path, held: int) -> None:
    """Remove this user's folder if Ray created it again after its removal; the next session would refuse it.

    Args:
        private: path of the user's folder; Ray creates it open to others.
        folder: folder of the session, whose processes are ended first.
        held: descriptor of the folder that ``create_session_folder`` used.
    """
    try:
        facts = private.lstat()
    except FileNotFoundError:
        return
    if facts.st_uid == os.geteuid() and facts.st_mode & 0o077 and not os.path.samestat(facts, os.fstat(held)):
        _end_processes(folder)
        shutil.rmtree(private, ignore_errors=True)


def format_removed(path: str) -> str:
    """Return the message for a missing folder or socket of Ray's session, and what to do."""
    return (
        f"Ray's {path!r} on this machine was removed while Ray ran, perhaps by a program that cleans up temporary files. Ray "
        f"starts no worker without it. To have it elsewhere, set RAY_TMPDIR to a short folder of your own. What was finished "
        f"is kept; run `dvc repro` to go on."
    )


def _format_folder_name() -> str:
    """Return the name of this user's folder."""
    return f"caramel-{os.geteuid()}"


def _is_short(folder: Path) -> bool:
    """Return whether the paths of Ray's sockets in a folder are short enough."""
    return len(os.fsencode(folder)) + len(ADDED) <= LONGEST


def _require_private(folder: Path) -> Path:
    """Create this user's folder if it is missing. Refuse it if others could enter or replace it."""
    cure = "Remove it, or set RAY_TMPDIR to a short folder of your own."
    if not _is_short(folder / "10"):
        raise ResourceError(
            f"RAY_TMPDIR={str(folder.parent)!r} is too long: the sockets of Ray in it would have paths of more than {LONGEST} bytes. "
            f"Set RAY_TMPDIR to a shorter path."
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        raise ResourceError(
            f"The folder {str(folder)!r} of Ray's temporary files is no folder. {cure}"
        ) from None
    facts = folder.lstat()
    if stat.S_ISLNK(facts.st_mode):
        raise ResourceError(
            f"The folder {str(folder)!r} of Ray's temporary files is a link, perhaps another user's. {cure}"
        )
    if facts.st_uid != os.geteuid():
        raise ResourceError(
            f"The folder {str(folder)!r} of Ray's temporary files belongs to user {facts.st_uid}, not to you. {cure}"
        )
    if facts.st_mode & 0o077:
        mode = stat.S_IMODE(facts.st_mode)
        raise ResourceError(
            f"The folder {str(folder)!r} of Ray's temporary files is open to others (mode {mode:04o}, not 0700). {cure}"
        )
    for parent in Path(os.path.realpath(folder)).parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise ResourceError(
                f"Every user may replace what lies in {str(parent)!r} (mode {stat.S_IMODE(mode):04o}, no sticky bit), Ray's "
                f"temporary files too. Set RAY_TMPDIR to a folder of your own."
            )
    return folder


def _claim_folder(private: Path) -> tuple[Path, FileLock]:
    """Create the first missing folder N, with its lock.

    The caller must hold the lock of this user's folder.
    """
    for number in count():
        folder = private / str(number)
        lock = FileLock(private / f"{number}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            continue
        if not folder.exists():
            folder.mkdir(mode=0o700)
            return folder, lock
        lock.release()  # its processes outlive the one that started them
    raise AssertionError("there are no more numbers")


def _remove_abandoned(private: Path) -> None:
    """Remove abandoned session folders: no process holds their lock or works in them."""
    for folder in (path for path in private.iterdir() if path.name.isdecimal()):
        try:
            with FileLock(private / f"{folder.name}.lock", timeout=0):
                if not _find_processes(folder):
                    _remove_folder(folder)
        except Timeout:
            continue


def _find_processes(folder: Path) -> list[psutil.Process]:
    """Return the processes whose command line names a path in the folder: all of Ray's for it."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(f"{folder}/" in word for word in process.info["cmdline"] or ())
    ]


def _remove_folder(folder: Path) -> None:
    """Remove a session's folder.

    Files that one of Ray's last processes still writes are left to the next session.
    """
    shutil.rmtree(folder, ignore_errors=True)
