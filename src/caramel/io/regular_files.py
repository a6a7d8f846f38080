"""Plain files of a project, read and added to: a FIFO would keep its reader waiting, and a link leads elsewhere.

A project may be a stranger's, and hold anything under the names of ``params.yaml``, ``dvc.lock`` and pins.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from caramel.errors import ConfigError
from caramel.io.output_paths import check_target, is_stream


def read_plain(path: Path, most: int = -1) -> bytes:
    """Return the bytes of a plain file, or of the one that a link leads to; ``most``: how many at most, all by default.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be read, or is a FIFO, a device or a socket: nothing is waited for.
    """

    def open_at_once(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK)

    with open(path, "rb", opener=open_at_once) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        return stream.read(most)


def read_plain_text(path: Path) -> str:
    """Return a plain file of UTF-8, line ends as ``\\n``; errors as in ``read_plain``, and UnicodeDecodeError of other bytes."""
    return read_plain(path).decode().replace("\r\n", "\n").replace("\r", "\n")


def require_plain(path: Path) -> None:
    """Raise unless at a path is a plain file or nothing, so that it can be added to; see ``check_target``.

    Raises:
        ConfigError: there is something else.
    """
    check_target(path)
    if is_stream(path):
        raise ConfigError(f"{str(path)!r} is no plain file. Remove it.")


def append_plain(path: Path, text: str) -> None:
    """Add a text in UTF-8 to a plain file, or to a new one; errors as in ``require_plain``."""
    require_plain(path)

    def open_plain(name: str, flags: int) -> int:
        # What took the file's place since is neither followed nor waited for.
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)

    try:
        with open(path, "a", encoding="utf-8", opener=open_plain) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise OSError(errno.ENXIO, "it is no plain file", str(path))
            stream.write(text)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a FIFO without a reader, or a socket
            raise ConfigError(f"{str(path)!r} is no plain file. Remove it.") from error
        raise
