"""The ``caramel`` command: ``main``.

Nothing is imported here, so that Ctrl-C ends the command with one line at any time: while it imports as well.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130  # as shells say it: 128 and the number of the signal


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; see ``commands.run`` for the code."""
    try:
        from caramel.cli.commands import run_cli

        sys.exit(run_cli(arguments))
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to go on.", file=sys.stderr)
        sys.exit(INTERRUPTED)
