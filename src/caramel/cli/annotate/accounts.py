"""Command ``annotate accounts``: add, renew and remove accounts of annotators."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.output import echo
from caramel.errors import ConfigError


@click.command("accounts")
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("annotators", nargs=-1, required=True)
@click.option("--renew", is_flag=True, help="Replace the secrets of accounts that exist. The old links end.")
@click.option("--remove", is_flag=True, help="Remove accounts. Their answers stay.")
def add_annotator_accounts(path: Path, annotators: tuple[str, ...], renew: bool, remove: bool) -> None:
    """Add accounts for annotators, and print their secrets once.

    ANNOTATORS are pseudonyms, not names of people. PATH is the file of accounts; it holds a hash of each secret. Give
    each annotator the link that `caramel annotate serve --accounts PATH` prints, with the annotator's secret at its end. A task that is
    served meanwhile reads the file again.

    \b
    Example:
      caramel annotate accounts accounts.json a01 a02 a03
      caramel annotate accounts accounts.json a02 --renew
    """
    from caramel.annotation.accounts import add_accounts, remove_accounts

    if renew and remove:
        raise ConfigError("--renew and --remove exclude each other.")
    if remove:
        remove_accounts(path, annotators)
        echo(f"Removed {len(annotators)} accounts from {path}.")
        return
    secrets = add_accounts(path, annotators, renew=renew)
    width = max(map(len, secrets))
    for name, secret in secrets.items():
        echo(f"{name:{width}}  {secret}")
    echo(f"Written to {path}. The secrets cannot be printed again.", err=True)
