"""The ``caramel`` command: ``main``; each command has a file of its name.

Nothing is imported here, so that Ctrl-C ends the command with one line at any time, also during imports.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130  # as in shells: 128 plus the number of the signal


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; see ``commands.run_cli`` for the code."""
    try:
        from caramel.cli.commands import run_cli

        sys.exit(run_cli(arguments))
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to go on.", file=sys.stderr)
        sys.exit(INTERRUPTED)
