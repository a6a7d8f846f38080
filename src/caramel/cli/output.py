"""What the commands print: all of it goes through ``say``."""

from __future__ import annotations

import click

from caramel.errors import printable, shown_address


def say(text: str, *, err: bool = False) -> None:
    """Print to stdout, or to stderr, without the passwords of addresses; signs that a terminal would obey, which data may hold, as escapes."""
    click.echo(printable(shown_address(text)), err=err)
