"""Command ``pin``: freeze the data set on disk as a version."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.output import echo


@click.command("pin")
@click.argument("name")
def pin_version(name: str) -> None:
    """Pin the data set on disk as a version that can be cited.

    Writes pins/NAME.json and prints how to cite the version.

    \b
    Example:
      caramel pin v1.0
    """
    from caramel.release import pin as pins
    from caramel.release.runs import format_tag, tag_runs

    pinned = pins.create_pin(name, Path())
    for warning in pins.list_warnings(pinned):
        echo(f"Warning: {warning}", err=True)
    echo(f"Wrote pins/{name}.json.\n\n{pins.format_bibtex(pinned)}\n\n{pins.format_data_statement(pinned)}")
    if count := tag_runs(pinned, Path()):
        echo(f"\n{count} tracked runs read this version's data; they have the tag {format_tag(pinned)!r}.")
