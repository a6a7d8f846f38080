"""Command ``diff``: show how two versions differ."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.output import add_json_option, echo, print_json


@click.command("diff")
@click.argument("old")
@click.argument("new", default=".")
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="HTML file to write, with the images that were added and removed.",
)
@add_json_option
def print_version_diff(old: str, new: str, page: Path | None) -> None:
    """Show how two versions differ.

    Compares parameters, code, rows of each table, and results. OLD and NEW are each a pin, a git revision, or `.`, the
    data on disk, which is the default of NEW. The rows of both must be on disk or in DVC's cache.

    \b
    Example:
      caramel diff v1.0 v1.1
      caramel diff v1.0                      # what has changed since
      caramel diff HEAD~1 HEAD --page changes.html
    """
    from caramel.io.files import forbid_overwriting_inputs, write_text
    from caramel.release.diff import diff_images, diff_versions, format_diff
    from caramel.release.resolve import resolve_version
    from caramel.report.difference_page import render_difference_page

    if page is not None:
        forbid_overwriting_inputs([page], [Path("data"), Path("pins")])
    before, after = resolve_version(old, Path()), resolve_version(new, Path())
    version_diff = diff_versions(before, after, Path())
    echo(format_diff(version_diff))
    print_json(version_diff.to_dict())
    if page is not None:
        text = render_difference_page(
            version_diff.to_dict(), diff_images(before, after, version_diff, Path())
        )
        write_text(page, text)
        echo(f"Page: {page}", err=True)
