"""The ``python`` of a run of ``fork_server.py``: ``fork_client.py ADDRESS PYTHON FILE ARGUMENTS``.

It is called by its path in a bare Python, which starts in a hundredth of a second: it imports nothing of caramel.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

FORKING = "CARAMEL_FORKING_PYTHON"  # variable of all that the command starts: the path of this ``python``
FORK_SERVER = "caramel.runtime.fork_server"  # as ``python -m`` names it
KILLED = (
    "The process that scripts are forked from was killed, as when memory runs out. The script may still be at work: "
    "wait for it, then run the command again. Finished work is kept."
)
FORWARDED = (signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128  # plus N: the exit code of a shell whose program was ended by signal N
OOM = "/proc/self/oom_score_adj"  # by which Linux chooses whom to kill when memory runs out; Ray sets it for workers


def main(address: str, python: str, *arguments: str) -> None:
    """Do what Python does with these arguments; a script becomes a fork, all else runs in a Python of its own."""
    if arguments and Path(arguments[0]).is_file():
        with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):  # there is no server
            connection.connect(address)
            _run_forked(connection, arguments)
    os.execv(python, [python, *arguments])


def _run_forked(connection: socket.socket, arguments: Sequence[str]) -> None:
    """Run a script in a fork of the server, with what this process has, and end as the script does.

    Raises:
        OSError: the server is ending, or starts no more processes; nothing was run.
    """
    request = json.dumps(
        {
            "arguments": arguments,
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
            "ignored": [n for n in (signal.SIGINT, *FORWARDED) if signal.getsignal(n) is signal.SIG_IGN],
            "blocked": [*signal.pthread_sigmask(signal.SIG_BLOCK, [])],
            "oom": Path(OOM).read_text() if Path(OOM).exists() else "",
        }
    )
    held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, *FORWARDED))  # until the script is known
    socket.send_fds(connection, [b"\0"], [0, 1, 2])
    connection.sendall(f"{request}\n".encode())
    replies = connection.makefile()
    script = _read_number(replies)
    if not script:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        raise OSError("the server could not start it")

    def forward_signal(number: int, _: object) -> None:
        with suppress(ProcessLookupError):  # its exit code is on the way
            os.kill(script, number)

    # A terminal's interrupt reaches the script too, which decides.
    reached = os.getpgrp() == os.getpgid(script)
    signal.signal(signal.SIGINT, signal.SIG_IGN if reached else forward_signal)
    for number in FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, forward_signal)
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    _end_like_script(_read_number(replies))


def _read_number(replies: TextIO) -> int:
    """Return the next number that the server sends; end this process with a message if it sends no more."""
    try:
        reply = replies.readline()
    except ConnectionError:
        reply = ""
    return int(reply) if reply else sys.exit(f"\nError: {KILLED}")


def _end_like_script(code: int) -> None:
    """End this process with an exit code, or by the signal that ended the script."""
    if code < 0:
        with suppress(OSError):  # SIGKILL has no other handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
