"""Sandboxes, and forked processes under limits of time and memory.

A sandbox is ``box`` below ``up``, or a folder of an odder name. Beside it lies ``secret.png``, which no command may read or
change, and nothing else: what appears there was written outside, and ``ran`` is made by planted programs.
"""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mutations_of_paths import MARKER
from specials import copy_node

GIB = 2**30


Files = dict[str, bytes]
SECRET, RAN = "secret.png", "ran"
STOP, STOPPED = 77, "stopped itself"  # exit code of a child that ended itself, and what is said of it


def status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return 0


def peak() -> int:
    return status("VmHWM")


def reset_peak() -> int:
    """Let the system forget the peak of the resident memory; return what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def snapshot(root: Path) -> Files:
    """Return the regular files below a folder by their names."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


def fresh(root: Path, template: Path, secret: bytes, name: str = "box") -> Path:
    """Return a new sandbox with the files of a template; programs that are planted in it make its marker."""
    shutil.rmtree(root / "up", ignore_errors=True)
    box = root / "up" / name
    copy(template, box)
    (root / "up" / SECRET).write_bytes(secret)
    os.environ[MARKER] = str(root / "up" / RAN)
    return box


def copy(source: Path, target: Path) -> None:
    """Copy a folder with all that lies in it, also what is not a plain file."""
    shutil.copytree(source, target, symlinks=True, copy_function=copy_node)


def in_child(
    work: Callable[[Callable[[str], None]], None], heard: Callable[[str], None], patience: float
) -> str:
    """Run ``work(tell)`` in a forked process and hear each line that it tells.

    Returns:
        Empty if it ended well, else how it ended: killed for its memory or for hanging, or by a signal.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _limit()
        code = 1
        try:
            with os.fdopen(writer, "w", buffering=1) as pipe:
                work(lambda line: print(line, file=pipe, flush=True))
            code = 0
        except BaseException:  # noqa: BLE001 the end of the child: it must not go on as its parent
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return _wait(child, pipe, heard, patience)


def _limit() -> None:
    """Let no allocation of the child take the machine down."""
    most = status("VmSize") + 4 * GIB
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _wait(child: int, pipe: Any, heard: Callable[[str], None], patience: float) -> str:
    """Read lines until the child ends; end it where it is silent for too long."""
    import select

    last, killed = time.monotonic(), ""
    while True:
        ready, _, _ = select.select([pipe], [], [], 0.5)
        if ready:
            line = pipe.readline()
            if not line:
                break
            last = time.monotonic()
            heard(line)
        elif time.monotonic() - last > patience:
            killed = "hang"
            os.kill(child, signal.SIGKILL)
            last = time.monotonic()
    _, status = os.waitpid(child, 0)
    if killed or not status:
        return killed
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return STOPPED if os.WEXITSTATUS(status) == STOP else "broken harness"


def number(*parts: object) -> int:
    """Return a number that the parts determine."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")
