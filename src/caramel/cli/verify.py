"""Command ``verify``: compare the data set on disk with a pin."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from caramel.cli.output import add_json_option, echo, print_json
from caramel.errors import count_of, format_items


@click.command("verify")
@click.argument("name")
@click.option(
    "--deep",
    is_flag=True,
    help="Also recompute the version's table of results from its similarities.",
)
@add_json_option
def verify_version(name: str, deep: bool) -> None:
    """Check that the data set on disk is a pinned version.

    NAME is the name of the version. Exits with code 1 if the data differ.

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
    print_json({"version": name, "deep": deep, "passed": not differences, "differences": differences})
    if differences:
        sys.exit(1)


def _verify_rescoring(name: str) -> list[str]:
    """Recompute the version's results from its similarities and print whether they agree; return the differences."""
    from caramel.release.rescoring import rescore_version

    again = rescore_version(name, Path())
    if not again.differences:
        echo(
            f"Its table of results ({count_of(again.rows, 'row')}) equals the table recomputed from its similarities, to the last digit."
        )
        return []
    echo(f"Values of its table of results that differ from the recomputed table: {len(again.differences):,}")
    echo(format_items(again.differences, 20))
    return again.differences
