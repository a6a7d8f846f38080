"""The disk of the machine that drives, for nodes that do not share it.

An actor on the driver's node reads what ``carried`` sends and writes what trials leave. Nothing but Ray's own connections is
needed, and no key but Ray's token: who may run work there may run any.
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

PART = ".part"  # of a file that is not yet written to its end
EVERY = 10.0  # seconds between looks for what a trial has newly kept


class Disk:
    """Reads and writes files of the machine that it runs on.

    A trial whose node was cut off goes on elsewhere; what its first attempt sends when the node is back is refused.
    """

    def __init__(self) -> None:
        self._attempts: dict[str, int] = {}  # of each folder

    def begin(self, folder: str) -> int:
        """Return the number of a new attempt at a trial, whose folder is now its own."""
        self._attempts[folder] = self._attempts.get(folder, 0) + 1
        return self._attempts[folder]

    def read(self, path: str, start: int) -> bytes:
        """Return the bytes of a file from one on, ``CHUNK`` at most."""
        with Path(path).open("rb") as stream:
            stream.seek(start)
            return stream.read(CHUNK)

    def names(self, folder: str) -> dict[str, int]:
        """Return name below a folder -> bytes of all files in it; none where there is no such folder."""
        return {str(p.relative_to(folder)): p.stat().st_size for p in Path(folder).rglob("*") if p.is_file()}

    def write(self, part: str, start: int, chunk: bytes) -> None:
        """Write the bytes of a file that is not yet to be seen, from one on."""
        Path(part).parent.mkdir(parents=True, exist_ok=True)
        with Path(part).open("r+b" if start else "wb") as stream:
            stream.seek(start)
            stream.write(chunk)

    def finish(self, part: str, folder: str, attempt: int, name: str, sha256: str) -> None:
        """Have a file be seen in a trial's folder that is written to its end.

        Raises:
            ResourceError: a later attempt has begun, or the file is not what was sent.
        """
        self._check_attempt(folder, attempt)
        if compute_file_hash(part) != sha256:
            raise ResourceError(f"{name!r} of the trial in {folder!r} was not written as it was sent.")
        write_atomically(Path(folder, name), lambda temporary: Path(part).rename(temporary))

    def remove(self, folder: str, attempt: int, name: str) -> None:
        """Remove a file of a trial's folder; errors as of ``finish``."""
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
    """Return what a method of ``Disk`` gives on the machine that it runs on."""
    import ray

    return ray.get(getattr(disk, method).remote(*arguments))


class Mirror:
    """A trial's folder on a node, and the same folder of the driver's machine, which outlives the node.

    What the trial keeps (``files.keep``) is sent while it runs; all of it when it has ended well.
    """

    def __init__(self, folder: str, disk: Any) -> None:
        """Know both folders.

        Args:
            folder: of the driver's machine.
            disk: the actor.
        """
        self.there, self._ask = folder, partial(call_disk, disk)
        trials = CACHE.expanduser() / "trials"
        trials.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.here = Path(tempfile.mkdtemp(dir=trials))
        self._attempt = self._ask("begin", folder)
        self._sending = threading.Lock()

    def pull_files(self) -> None:
        """Make the folder on the node as that of the driver's machine is."""
        for name, size in self._ask("names", self.there).items():
            path = self.here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as stream:
                for chunk in iter_chunks(str(Path(self.there, name)), size, partial(self._ask, "read")):
                    stream.write(chunk)

    def push_files(self, *, whole: bool) -> None:
        """Send what the driver's machine has not, and remove there what is not here.

        Args:
            whole: all files; else those that were kept, which are whole and never change.
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
        except FileNotFoundError:  # the trial has a newer one
            return
        # Beside the folder, in which it would count as the trial's.
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
    """Give the folder on this node that stands for one of the driver's machine while a trial works in it.

    It begins as that folder is. What is kept in it is sent there every ``EVERY`` seconds, and whatever happens at the end;
    all that is in it when the block ends well.
    """
    mirror, done = Mirror(folder, disk), threading.Event()
    mirror.pull_files()

    def push_periodically() -> None:
        while not done.wait(EVERY):
            with suppress(Exception):  # of a disk that is full for a while, say; at the end it is raised
                mirror.push_files(whole=False)

    sender = threading.Thread(target=push_periodically, daemon=True)
    sender.start()
    try:
        yield mirror.here
    except BaseException:
        done.set()
        sender.join()
        with suppress(Exception):  # what the trial raised is what is wrong
            mirror.push_files(whole=False)
        raise
    done.set()
    sender.join()
    mirror.push_files(whole=True)
    shutil.rmtree(mirror.here)
