"""Read and write files of the driver's machine from nodes that do not share its disk.

An actor on the driver's node reads what ``file_transfer`` sends, and writes what trials leave. This needs
only Ray's own connections and Ray's token: whoever may run work there may run anything.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from caramel.errors import ResourceError
from caramel.io.files import compute_file_hash, has_hashed_name, write_atomically
from caramel.runtime.ray.file_transfer import CACHE, CHUNK, iter_chunks
from caramel.runtime.ray.node import get_node_id

PART = ".part"  # suffix of an incomplete file
EVERY = 10.0  # seconds between checks for newly kept files of a trial


class Disk:
    """Reads and writes files of the machine that it runs on.

    A trial whose node was cut off continues elsewhere. What its first attempt sends when the node is back is
    refused.
    """

    def __init__(self) -> None:
        self._attempts: dict[str, int] = {}  # by folder

    def begin(self, folder: str) -> int:
        """Return the number of a new attempt at a trial, which now owns the trial's folder."""
        self._attempts[folder] = self._attempts.get(folder, 0) + 1
        return self._attempts[folder]

    def read(self, path: str, start: int) -> bytes:
        """Return at most ``CHUNK`` bytes of a file from an offset."""
        with Path(path).open("rb") as stream:
            stream.seek(start)
            return stream.read(CHUNK)

    def names(self, folder: str) -> dict[str, int]:
        """Return the size of each file below a folder by relative name; empty if the folder is missing."""
        return {str(p.relative_to(folder)): p.stat().st_size for p in Path(folder).rglob("*") if p.is_file()}

    def write(self, part: str, start: int, chunk: bytes) -> None:
        """Write bytes of an incomplete file from an offset."""
        Path(part).parent.mkdir(parents=True, exist_ok=True)
        with Path(part).open("r+b" if start else "wb") as stream:
            stream.seek(start)
            stream.write(chunk)

    def finish(self, part: str, folder: str, attempt: int, name: str, sha256: str) -> None:
        """Move a complete file into a trial's folder.

        Raises:
            ResourceError: a later attempt has begun, or the file is not the one that was sent.
        """
        self._check_attempt(folder, attempt)
        if compute_file_hash(part) != sha256:
            raise ResourceError(f"{name!r} of the trial in {folder!r} was not written as it was sent.")
        write_atomically(Path(folder, name), lambda temporary: Path(part).rename(temporary))

    def remove(self, folder: str, attempt: int, name: str) -> None:
        """Remove a file of a trial's folder; errors as in ``finish``."""
        self._check_attempt(folder, attempt)
        Path(folder, name).unlink(missing_ok=True)

    def _check_attempt(self, folder: str, attempt: int) -> None:
        if attempt != self._attempts.get(folder):
            raise ResourceError(f"The trial in {folder!r} goes on elsewhere: this node was given up.")


def start_disk_actor() -> Any:
    """Return a new actor on this node that reads and writes its files."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy = NodeAffinitySchedulingStrategy(get_node_id(), soft=False)
    return ray.remote(num_cpus=0, max_concurrency=8, scheduling_strategy=strategy)(Disk).remote()


def call_disk(disk: Any, method: str, *arguments: Any) -> Any:
    """Return the result of a method of ``Disk`` on the machine that it runs on."""
    import ray

    return ray.get(getattr(disk, method).remote(*arguments))


class Mirror:
    """A trial's folder on a node, and the same folder on the driver's machine, which outlives the node.

    Files that the trial keeps (``files.save_hashed``) are sent while it runs. When it has ended well, all
    files are.
    """

    def __init__(self, folder: str, disk: Any) -> None:
        """Store both folders.

        Args:
            folder: folder on the driver's machine.
            disk: the actor.
        """
        self.there, self._ask = folder, partial(call_disk, disk)
        trials = CACHE.expanduser() / "trials"
        trials.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.here = Path(tempfile.mkdtemp(dir=trials))
        self._attempt = self._ask("begin", folder)
        self._sending = threading.Lock()

    def pull_files(self) -> None:
        """Make the folder on the node equal to that on the driver's machine."""
        for name, size in self._ask("names", self.there).items():
            path = self.here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as stream:
                for chunk in iter_chunks(str(Path(self.there, name)), size, partial(self._ask, "read")):
                    stream.write(chunk)

    def push_files(self, *, whole: bool) -> None:
        """Send files that the driver's machine lacks, and remove files there that are not here.

        Args:
            whole: all files; otherwise only hashed files, which are complete and never change.
        """
        with self._sending:
            theirs = self._ask("names", self.there)
            ours = {str(p.relative_to(self.here)): p for p in self.here.rglob("*") if p.is_file()}
            wanted = {name: path for name, path in ours.items() if whole or has_hashed_name(path)}
            for name, path in wanted.items():
                if not (has_hashed_name(path) and name in theirs):
                    self._send_file(path, name)
            for name in theirs:
                if name not in ours and (whole or has_hashed_name(Path(name))):
                    self._ask("remove", self.there, self._attempt, name)

    def _send_file(self, path: Path, name: str) -> None:
        try:
            stream = path.open("rb")
        except FileNotFoundError:  # the trial has replaced it
            return
        # Beside the folder, because in it the file would belong to the trial.
        part = str(Path(self.there).with_name(f".{secrets.token_hex(8)}{PART}"))
        digest, start = hashlib.sha256(), 0
        with stream:
            self._ask("write", part, 0, b"")
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                self._ask("write", part, start, chunk)
                start += len(chunk)
        self._ask("finish", part, self.there, self._attempt, name, digest.hexdigest())


@contextmanager
def open_mirror(folder: str, disk: Any) -> Iterator[Path]:
    """Yield a folder on this node that mirrors one of the driver's machine while a trial works in it.

    It starts as a copy of that folder. Hashed files in it are sent there every ``EVERY`` seconds, and at the
    end in any case. If the block ends well, all files are sent.
    """
    mirror, done = Mirror(folder, disk), threading.Event()
    mirror.pull_files()

    def push_periodically() -> None:
        while not done.wait(EVERY):
            with suppress(Exception):  # such as a disk that is full for a while; at the end it is raised
                mirror.push_files(whole=False)

    sender = threading.Thread(target=push_periodically, daemon=True)
    sender.start()
    try:
        yield mirror.here
    except BaseException:
        done.set()
        sender.join()
        with suppress(Exception):  # the trial's own error is the one to report
            mirror.push_files(whole=False)
        raise
    done.set()
    sender.join()
    mirror.push_files(whole=True)
    shutil.rmtree(mirror.here)
