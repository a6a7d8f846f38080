"""The ``python`` of a run of ``fork_server.py``: ``fork_client.py ADDRESS PYTHON FILE ARGUMENTS``.

It is called by its path in a bare Python, which starts in a hundredth of a second: it imports nothing of caramel.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

FORKING = (
    "CARAMEL_FORKING_PYTHON"  # the variable with the path of this ``python``, in what the command starts
)
KILLED = (
    "The process that scripts are forked from was killed, as when memory runs out. The script may still be at work: "
    "wait for it, then run the command again. Finished work is kept."
)
FORWARDED = (signal.SIGTERM, signal.SIGHUP)


def run_forked(address: str, arguments: Sequence[str], on_start: Callable[[int], None]) -> int:
    """Run a script in a fork of the server, with this process's folder, environment and standard files.

    Args:
        address: path of the server's socket.
        arguments: the script and its arguments.
        on_start: called with the process id of the fork.

    Returns:
        The exit code; -N if signal N ended the script.

    Raises:
        OSError: there is no server at the address; nothing was run.
        EOFError: the server was killed while the script ran.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"\0"], [0, 1, 2])
        request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
        connection.sendall(f"{json.dumps(request)}\n".encode())
        replies = connection.makefile()
        for take in (on_start, None):
            reply = replies.readline()
            if not reply:
                raise EOFError(KILLED)
            if take:
                take(int(reply))
        return int(reply)


def main(address: str, python: str, *arguments: str) -> None:
    """Do what Python does with these arguments; a script becomes a fork, all else runs in a Python of its own."""
    if arguments and not arguments[0].startswith("-"):
        # An interrupt reaches the script too, which decides.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            code = run_forked(address, arguments, _forward_signals)
        except OSError:
            signal.signal(signal.SIGINT, before)  # no server: as without one
        except EOFError as error:
            sys.exit(f"\nError: {error}")
        else:
            _end_alike(code)
    os.execv(python, [python, *arguments])


def _forward_signals(script: int) -> None:
    for number in FORWARDED:
        signal.signal(number, lambda number, _: os.kill(script, number))


def _end_alike(code: int) -> None:
    """End this process with an exit code, or by the signal that ended the script."""
    if code < 0:
        with suppress(OSError):  # SIGKILL has no other handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
