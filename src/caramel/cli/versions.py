"""Commands for the versions that papers cite: pin, verify, get, diff, runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from caramel.cli.options import FOLDER
from caramel.cli.output import echo
from caramel.errors import format_items


@click.command()
@click.argument("name")
def pin(name: str) -> None:
    """Pin the data set on disk as version NAME in pins/NAME.json, and print how to cite it.

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


@click.command()
@click.argument("name")
@click.option("--deep", is_flag=True, help="Also compute its table of results anew from its similarities.")
def verify(name: str, deep: bool) -> None:
    """Say whether the data set on disk is the pinned version NAME; exit with code 1 if not.

    \b
    Example:
      caramel verify v1.0
      caramel verify v1.0 --deep
    """
    from caramel.release import pin as pins

    differences = pins.verify_pin(name, Path())
    echo(
        f"The data set on disk is {'not ' if differences else ''}version {name}{':' if differences else '.'}"
    )
    for difference in differences:
        echo(f"  - {difference}")
    if deep:
        differences += _verify_rescoring(name)
    if differences:
        sys.exit(1)


def _verify_rescoring(name: str) -> list[str]:
    """Say whether the figures of the version come out of its similarities; return how they do not."""
    from caramel.release.rescoring import rescore_version

    again = rescore_version(name, Path())
    if not again.differences:
        echo(
            f"Its table of results, {again.rows:,} rows of figures, comes out of its similarities to the last digit."
        )
        return []
    echo(f"Of its table of results {len(again.differences):,} figures do not come out of its similarities:")
    echo(format_items(again.differences, 20))
    return again.differences


@click.command()
@click.argument("name", metavar="PIN")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="CSV file to write; left out: the terminal.",
)
def runs(name: str, out: Path | None) -> None:
    """List the tracked runs that read the data of version PIN, as their inputs say.

    \b
    Example:
      caramel runs v1.0
      caramel runs v1.0 --out runs.csv
    """
    from caramel.io.files import forbid_overwriting_inputs, write_csv
    from caramel.release.pin_file import read_pin
    from caramel.release.runs import list_runs

    if out is not None:
        forbid_overwriting_inputs([out], [Path("pins"), Path("mlruns")])
    matches = list_runs(read_pin(name, Path()), Path())
    if out is not None:
        write_csv(out, matches)
        echo(f"{len(matches)} runs of version {name}: {str(out)!r}.")
    elif len(matches):
        echo(matches.to_string(index=False))
    else:
        echo(f"No tracked run read the data of version {name} alone.")


@click.command()
@click.argument("source", metavar="SOURCE[@PIN]")
@click.argument("paths", nargs=-1)
@click.option("--out", required=True, type=FOLDER, help="Folder to put the files into.")
@click.option(
    "--split",
    type=click.Choice(["train", "val", "test"]),
    help="Only its rows, of tables with a split, and the shards of their images.",
)
@click.option(
    "--credentials",
    multiple=True,
    metavar="ADDRESS",
    help="A remote of SOURCE that may get your login, https://HOST[:PORT], ssh://HOST or s3://BUCKET; may be repeated.",
)
def get(
    source: str, paths: tuple[str, ...], out: Path, split: str | None, credentials: tuple[str, ...]
) -> None:
    """Get a pinned version back: its tables and images, from a git URL or a project's folder.

    PATHS are folders, files, or the ends of the paths of tables; without any all of the version is got. The
    images of an index `images` come with it. Every file is compared with the pin before any appears in --out, where
    `caramel verify PIN` works. What was cut off goes on when it is called again. Only files of data below data/ are
    taken, and pins/PIN.json. A project in a subfolder of a repository is found, too; FOLDER/PIN says which one is meant
    where several have that pin.

    \b
    Example:
      caramel get https://example.org/benchmark.git@v1.0 --out v1.0/
      caramel get https://example.org/papers.git@sets/one/v1.0 --out v1.0/
      caramel get git@example.org:lab/benchmark.git@v1.0 assemble --split test --out test/
      caramel get ../benchmark@v1.0 instances evaluate/metrics --out tables/
      caramel get https://example.org/benchmark.git@v1.0 --out v1.0/ --credentials https://s3.example.org
    """
    from caramel.release.get import get_version as fetch

    got = fetch(source, paths, out=out, split=split, credentials=credentials)
    rows = sum(got.pinned.tables[path].rows for path in got.tables)
    what = f"{len(got.files)} files, {len(got.tables)} of them tables"
    counted = f" of {rows:,} rows" if split is None else f", rows of {split} alone where there are splits"
    echo(f"Version {got.pinned.name} (commit {got.pinned.commit[:12]}): {what}{counted}, in {str(out)!r}.")


@click.command()
@click.argument("old")
@click.argument("new", default=".")
@click.option("--json", "as_json", is_flag=True, help="All of it as JSON.")
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="HTML file to write, with pictures that came and went.",
)
def diff(old: str, new: str, as_json: bool, page: Path | None) -> None:
    """Say how version NEW differs from OLD: parameters, code, rows of each table, figures.

    A version is a pin, a git revision, or `.`, the data on disk, which is NEW where none is given. The rows of both are on
    disk or in DVC's cache.

    \b
    Example:
      caramel diff v1.0 v1.1
      caramel diff v1.0                      # what has changed since
      caramel diff HEAD~1 HEAD --page changes.html
    """
    import json

    from caramel.io.files import forbid_overwriting_inputs, write_text
    from caramel.release.diff import diff_images, diff_versions, format_diff
    from caramel.release.resolve import resolve_version
    from caramel.report.difference_page import render_difference_page

    if page is not None:
        forbid_overwriting_inputs([page], [Path("data"), Path("pins")])
    before, after = resolve_version(old, Path()), resolve_version(new, Path())
    version_diff = diff_versions(before, after, Path())
    echo(
        json.dumps(version_diff.to_dict(), indent=2, ensure_ascii=False)
        if as_json
        else format_diff(version_diff)
    )
    if page is not None:
        text = render_difference_page(
            version_diff.to_dict(), diff_images(before, after, version_diff, Path())
        )
        write_text(page, text)
        echo(f"Page: {page}", err=True)
