"""Read and append to plain files of a project safely.

A FIFO would make its reader wait, and a link leads elsewhere. A project may come from a stranger and have
anything under the names of ``params.yaml``, ``dvc.lock`` and pins.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from caramel.errors import ConfigError
from caramel.io.output_paths import check_target, is_stream


def read_plain(path: Path, most: int = -1) -> bytes:
    """Return the bytes of a plain file, or of the target of a link: at most ``most`` bytes, by default all.

    Raises:
        FileNotFoundError: the file does not exist.
        OSError: it cannot be read, or is a FIFO, a device or a socket. The function does not wait for these.
    """

    def open_at_once(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK)

    with open(path, "rb", opener=open_at_once) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file", str(path))
        return stream.read(most)


def read_plain_text(path: Path) -> str:
    """Return the text of a plain UTF-8 file, with line ends as ``\\n``.

    Raises the errors of ``read_plain``, and UnicodeDecodeError if the file is not UTF-8.
    """
    return read_plain(path).decode().replace("\r\n", "\n").replace("\r", "\n")


def require_plain(path: Path) -> None:
    """Raise unless a path can be appended to: a plain file, or none; see ``check_target``.

    Raises:
        ConfigError: the path is something else.
    """
    check_target(path)
    if is_stream(path):
        raise ConfigError(f"{str(path)!r} is not a plain file. Remove it.")


def append_plain(path: Path, text: str) -> None:
    """Append a text in UTF-8 to a plain file, which is created if missing; errors as in ``require_plain``."""
    require_plain(path)

    def open_plain(name: str, flags: int) -> int:
        # If something else has replaced the file meanwhile, it is neither followed nor waited for.
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)

    try:
        with open(path, "a", encoding="utf-8", opener=open_plain) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise OSError(errno.ENXIO, "it is not a plain file", str(path))
            stream.write(text)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a FIFO without a reader, or a socket
            raise ConfigError(f"{str(path)!r} is not a plain file. Remove it.") from error
        raise
