"""The ``caramel`` command.

Heavy packages are imported inside the commands, so that ``caramel --help`` answers at once. An
error that the user can mend is printed without a traceback, in one place: ``main``.
"""

from __future__ import annotations

import sys

import click

from caramel.cli import evaluation, project, quality, refinement
from caramel.errors import CaramelError


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exit with code 1 and one message on any error of the user's."""
    try:
        cli(arguments)
    except CaramelError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except OSError as error:  # a folder that cannot be written, a full disk
        place = f"{error.strerror}: {error.filename!r}. Give another place or make room."
        click.echo(f"Error: {place if error.filename else error}", err=True)
        sys.exit(1)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="caramel")
def cli() -> None:
    """Dataset-versioned experiments on vision-language compositionality.

    `dvc repro` rebuilds the data and all results; these commands are for what lies around it.
    """
    from caramel.stages import be_quiet  # here, for the sake of `caramel --help`

    be_quiet()


for _command in (
    project.profile,
    project.doctor,
    quality.audit,
    refinement.refine,
    evaluation.evaluate,
    evaluation.benchmarks,
    evaluation.metrics,
    evaluation.compare,
    evaluation.table,
    project.pin,
    project.verify,
    project.ui,
    project.timings,
):
    cli.add_command(_command)
