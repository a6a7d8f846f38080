"""Command ``get``: download a pinned version."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import FOLDER
from caramel.cli.output import echo
from caramel.errors import count_of


@click.command("get")
@click.argument("source", metavar="SOURCE[@PIN]")
@click.argument("paths", nargs=-1)
@click.option("--out", required=True, type=FOLDER, help="Folder to put the files into.")
@click.option(
    "--split",
    type=click.Choice(["train", "val", "test"]),
    help="Get only the rows of this split, and the shards of their images; tables without a split are complete.",
)
@click.option(
    "--credentials",
    multiple=True,
    metavar="ADDRESS",
    help="Remote of SOURCE that may receive your login, repeatable: https://HOST[:PORT], ssh://HOST or s3://BUCKET.",
)
def get_pinned_version(
    source: str, paths: tuple[str, ...], out: Path, split: str | None, credentials: tuple[str, ...]
) -> None:
    """Download a pinned version: its tables and images.

    SOURCE is a git URL or a project's folder. PATHS are folders, files, or the ends of the paths of tables; without
    PATHS, the whole version is downloaded. The images of an index `images` come with it. Every file is checked against
    the pin before any file appears in --out, where `caramel verify PIN` works. An interrupted download continues when
    the command is called again. Only data files below data/ and pins/PIN.json are downloaded. A project in a subfolder of a
    repository is found as well; if several projects have the pin, FOLDER/PIN says which one is meant.

    \b
    Example:
      caramel get https://example.org/benchmark.git@v1.0 --out v1.0/
      caramel get https://example.org/papers.git@sets/one/v1.0 --out v1.0/
      caramel get git@example.org:lab/benchmark.git@v1.0 assemble --split test --out test/
      caramel get ../benchmark@v1.0 instances evaluate/metrics --out tables/
      caramel get https://example.org/benchmark.git@v1.0 --out v1.0/ --credentials https://s3.example.org
    """
    from caramel.release.get import get_version

    result = get_version(source, paths, out=out, split=split, credentials=credentials)
    rows = sum(result.pinned.tables[path].rows for path in result.tables)
    what = f"{count_of(len(result.files), 'file')}, {len(result.tables)} of them tables"
    counted = (
        f" of {count_of(rows, 'row')}" if split is None else f", only rows of {split} in tables with splits"
    )
    echo(
        f"Version {result.pinned.name} (commit {result.pinned.commit[:12]}): {what}{counted}, in {str(out)!r}."
    )
