"""Print the output of all commands, with ``echo``."""

from __future__ import annotations

import click

from caramel.errors import escape_unprintable, redact_secrets


def echo(text: str, *, err: bool = False) -> None:
    """Print to stdout or stderr; passwords in addresses are hidden, and control characters from data are escaped."""
    click.echo(escape_unprintable(redact_secrets(text)), err=err)
