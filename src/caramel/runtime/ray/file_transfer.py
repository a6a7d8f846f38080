"""Make files of the driver's machine available to work on other machines.

``LocalFile`` stands for a file or folder among the arguments of work. In keys it is its content, so that a
project that was moved finds its results. On this machine it is its path. On another node it is a copy, named
by its content and checked, in a folder of that node's user (``CACHE``). Files that are already there are not
sent again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from caramel.errors import ResourceError
from caramel.io.files import compute_file_hash, write_atomically
from caramel.runtime.last_result import stamp_files

CHUNK = 32 << 20  # bytes per message
CACHE = Path("~/.cache/caramel/node")  # on each node that is not the driver's


@dataclass(frozen=True)
class LocalFile:
    """A file or folder that work reads, in place of its path as text.

    Attributes:
        path: path of the file or folder.
        before, after: text around the path in the argument, such as ``NAME=FAMILY:`` of a model's spec.
        around: further files that this one refers to by path, such as the shards of an index of images. Its
            own content determines theirs.
    """

    path: str
    before: str = ""
    after: str = ""
    around: tuple[str, ...] = ()

    @property
    def content(self) -> dict[str, str]:
        """Its representation in keys.

        Raises:
            DataError: it does not exist.
        """
        return {"before": self.before, "sha256": _hash_as_it_is(self.path), "after": self.after}


@dataclass(frozen=True)
class Parcel:
    """A ``LocalFile`` on its way to another machine: files below a folder of the driver's machine.

    ``files`` are (name below ``root``, bytes, SHA-256). ``main`` is the name of the file or folder to use.
    """

    before: str
    after: str
    root: str
    main: str
    files: tuple[tuple[str, int, str], ...]


def encode_value(value: object) -> object:
    """Return the representation in keys of a value that JSON does not support."""
    return value.content if isinstance(value, LocalFile) else str(value)


def map_instances(value: Any, target_type: type[Any], make: Callable[[Any], Any]) -> Any:
    """Return a JSON-like value in which ``make`` has replaced each part of a type."""
    if isinstance(value, target_type):
        return make(value)
    if isinstance(value, dict):
        return {name: map_instances(part, target_type, make) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map_instances(part, target_type, make) for part in value)
    return value


def format_as_given(local: LocalFile) -> str:
    """Return the text for it in this process, as it was written."""
    return f"{local.before}{local.path}{local.after}"


def format_absolute(local: LocalFile) -> str:
    """Return the text for it in any process of this machine."""
    return f"{local.before}{Path(local.path).absolute()}{local.after}"


def pack_file(local: LocalFile) -> Parcel:
    """Return what another machine must receive for it.

    Raises:
        DataError: a file does not exist.
    """
    # Links are not resolved to their targets' names: caches of DVC and of the hub name files by their hashes.
    whole = _normalise_path(local.path)
    members = sorted(p for p in whole.rglob("*") if p.is_file()) if whole.is_dir() else [whole]
    members += [_normalise_path(path) for path in local.around]
    root = Path(os.path.commonpath([whole.parent, *(path.parent for path in members)]))
    hashes = [_hash_as_it_is(str(path)) for path in members]
    files = tuple(
        (p.relative_to(root).as_posix(), p.stat().st_size, h) for p, h in zip(members, hashes, strict=True)
    )
    return Parcel(local.before, local.after, str(root), whole.relative_to(root).as_posix(), files)


def _normalise_path(path: str) -> Path:
    return Path(os.path.normpath(Path(path).absolute()))


def format_source_path(parcel: Parcel) -> str:
    """Return the text for it on the machine that it comes from."""
    return f"{parcel.before}{Path(parcel.root, parcel.main)}{parcel.after}"


def unpack_parcel(parcel: Parcel, read: Callable[[str, int], bytes]) -> str:
    """Return the text for it on this node, after fetching the missing files.

    Args:
        parcel: the file or folder.
        read: (path on the driver's machine, offset) -> at most ``CHUNK`` bytes from there.

    Raises:
        ResourceError: a file has changed since the work began, or the node's volume is full.
    """
    cache = CACHE.expanduser()
    tree = cache / "trees" / hashlib.sha256(repr(parcel.files).encode()).hexdigest()[:32]
    (tree / parcel.main).parent.mkdir(parents=True, exist_ok=True)
    for name, size, sha256 in parcel.files:
        blob = _fetch_file(cache / "files" / sha256, str(Path(parcel.root, name)), size, read)
        path = tree / name
        if not (path.exists() and path.samefile(blob)):
            write_atomically(path, lambda temporary, blob=blob: os.link(blob, temporary))  # type: ignore[misc]
    if not (tree / parcel.main).exists():
        (tree / parcel.main).mkdir(exist_ok=True)  # a folder without any file
    return f"{parcel.before}{tree / parcel.main}{parcel.after}"


def _fetch_file(blob: Path, path: str, size: int, read: Callable[[str, int], bytes]) -> Path:
    """Return the node's file named by its SHA-256, fetched once by one of the node's processes."""

    def write_blob(temporary: Path) -> None:
        digest = hashlib.sha256()
        with temporary.open("wb") as stream:
            for chunk in iter_chunks(path, size, read):
                digest.update(chunk)
                stream.write(chunk)
        if digest.hexdigest() != blob.name:
            raise ResourceError(
                f"{path!r} came to node {socket.gethostname()!r} with other bytes than it had when the work began. Does "
                f"something write that file? Run the same command again."
            )

    blob.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with FileLock(f"{blob}.lock"):
        if not (blob.exists() and _hash_as_it_is(str(blob)) == blob.name):
            write_atomically(blob, write_blob)
            blob.chmod(0o444)  # work that writes to its input would change it for all
    return blob


def iter_chunks(path: str, size: int, read: Callable[[str, int], bytes]) -> Iterator[bytes]:
    """Yield the bytes of a file of the driver's machine, up to its end."""
    start = 0
    while start < size:
        chunk = read(path, start)
        if not chunk:
            return
        yield chunk
        start += len(chunk)


def _hash_as_it_is(path: str) -> str:
    """Return the SHA-256 of a file or folder, computed again if anything in it was written."""
    return _compute_hash(path, stamp_files(path))


@functools.lru_cache(4096)
def _compute_hash(path: str, stats: str) -> str:
    return compute_file_hash(path)
