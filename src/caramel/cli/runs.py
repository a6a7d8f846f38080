"""Command ``runs``: list the tracked runs that read a version's data."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.output import echo


@click.command("runs")
@click.argument("name", metavar="PIN")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="CSV file to write.  [default: the terminal]",
)
def list_version_runs(name: str, out: Path | None) -> None:
    """List the tracked runs that read a pinned version's data.

    A run counts if its logged inputs are those of version PIN. Runs that a killed process of this machine left as
    running are first ended as killed.

    \b
    Example:
      caramel runs v1.0
      caramel runs v1.0 --out runs.csv
    """
    from caramel.io.files import forbid_overwriting_inputs, write_csv
    from caramel.release.pin_file import read_pin
    from caramel.release.runs import list_runs
    from caramel.runtime.mlflow.tracking import end_killed_runs

    if out is not None:
        forbid_overwriting_inputs([out], [Path("pins"), Path("mlruns")])
    pin = read_pin(name, Path())
    if killed := end_killed_runs(Path()):
        echo(f"Runs whose process was killed, now ended as KILLED: {killed}.", err=True)
    matches = list_runs(pin, Path())
    if out is not None:
        write_csv(out, matches)
        echo(f"Runs of version {name}: {len(matches)}. Written to {str(out)!r}.")
    elif len(matches):
        echo(matches.to_string(index=False))
    else:
        echo(f"No tracked run read the data of version {name} alone.")
