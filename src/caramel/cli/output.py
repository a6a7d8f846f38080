"""What the commands print: all of it goes through ``say``."""

from __future__ import annotations

import click

from caramel.errors import escape_unprintable, redact_secrets


def echo(text: str, *, err: bool = False) -> None:
    """Print to stdout, or to stderr, without the passwords of addresses; signs that a terminal would obey, which data may hold, as escapes."""
    click.echo(escape_unprintable(redact_secrets(text)), err=err)
