"""Command ``annotate accounts``: add accounts for annotators."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.output import echo


@click.command("accounts")
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("annotators", nargs=-1, required=True)
def add_annotator_accounts(path: Path, annotators: tuple[str, ...]) -> None:
    """Add accounts for annotators, and print their secrets once.

    ANNOTATORS are pseudonyms, not names of people. PATH is the file of accounts; it holds a hash of each secret. Give
    each annotator the link that `caramel annotate serve --accounts PATH` prints, with the annotator's secret at its end.

    \b
    Example:
      caramel annotate accounts accounts.json a01 a02 a03
    """
    from caramel.annotation.accounts import add_accounts

    secrets = add_accounts(path, annotators)
    width = max(map(len, secrets))
    for name, secret in secrets.items():
        echo(f"{name:{width}}  {secret}")
    echo(f"Written to {path}. The secrets cannot be printed again.", err=True)
