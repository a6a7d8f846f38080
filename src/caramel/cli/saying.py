"""What the commands print: all of it goes through ``say``."""

from __future__ import annotations

import click

from caramel.errors import printable


def say(text: str, *, err: bool = False) -> None:
    """Print to stdout, or to stderr; signs that a terminal would obey, which data may hold, as escapes."""
    click.echo(printable(text), err=err)
