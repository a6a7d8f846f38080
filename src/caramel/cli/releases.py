"""Command that makes of a pinned version what is uploaded: release."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import FOLDER
from caramel.cli.saying import say
from caramel.errors import shown


@click.command()
@click.argument("name", metavar="PIN")
@click.option("--out", required=True, type=FOLDER, help="Folder to write to: a new or an empty one.")
@click.option(
    "--about",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file of what only people can say: authors, licences, answers.  [default: release.yaml, where there is one]",
)
@click.option("--strict", is_flag=True, help="Refuse a release of which something is not said.")
def release(name: str, out: Path, about: Path | None, strict: bool) -> None:
    """Write the pinned version PIN as a folder that can be uploaded as it is.

    It has Parquet with pictures that `datasets` loads, the files of SugarCrepe, SugarCrepe++ and BiVLC, WebDataset
    tars of the training set, README.md with the hub's header and SHA256SUMS. The same pin gives the same bytes.
    docs/release.md has what is in it, and the fields of release.yaml.

    \b
    Example:
      caramel release v1.0 --out release/v1.0
      caramel release v1.0 --out release/v1.0 --strict
    """
    from caramel.release.releasing import release as write

    made = write(name, Path(), out=out, about=about, strict=strict)
    say(f"Version {name}: {len(made.files)} files, {made.bytes / 2**20:,.1f} MiB, in {str(out)!r}.")
    if made.open:
        say(f"Not finished, {len(made.open)} points are open:\n{shown(made.open, 100)}", err=True)
