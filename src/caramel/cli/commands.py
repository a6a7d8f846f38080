"""All commands, and what becomes of errors.

Heavy packages are imported inside the commands, so that ``caramel --help`` answers at once. An
error that the user can mend is printed without a traceback, in one place: ``run``.
"""

from __future__ import annotations

import errno
import io
import sys

import click

from caramel.cli import auditing as quality
from caramel.cli import (
    budgeting,
    comparing,
    crepe_sets,
    evaluation,
    new_projects,
    nodes,
    project,
    refinement,
    releases,
    studying,
    tracked_runs,
    versions,
)
from caramel.cli.output import echo
from caramel.errors import CaramelError, ConfigError

CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), " Make room there, or give another place."),
    **dict.fromkeys((errno.EROFS, errno.ENOTDIR, errno.EEXIST), " Give another place."),
    **dict.fromkeys((errno.EACCES, errno.EPERM), " Change its permissions, or give another place."),
}


def run_cli(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code: 1, and one message, for any error that the user can mend."""
    try:
        check_arguments(sys.argv[1:] if arguments is None else arguments)
        return cli(arguments, standalone_mode=False) or 0
    except click.ClickException as error:
        buffer = io.StringIO()  # it names files as they are called
        error.show(buffer)
        echo(buffer.getvalue().rstrip("\n"), err=True)
        return error.exit_code
    except click.Abort as stopped:
        # Of Ctrl-C, and of a file that ends too soon, which is no wish of the user's.
        raise stopped.__cause__ or KeyboardInterrupt from None
    except CaramelError as error:
        echo(f"Error: {error}", err=True)
    except OSError as error:  # a folder that cannot be written, a full disk
        message = f"{error.strerror}: {error.filename!r}.{CURES.get(error.errno or 0, '')}"
        echo(f"Error: {message if error.filename else error}", err=True)
    return 1


def check_arguments(arguments: list[str]) -> None:
    """Raise ConfigError for an argument whose bytes are no UTF-8: what Python makes of them stands in no table or file."""
    for word in arguments:
        try:
            # UTF-8 stays such in a locale that knows ASCII alone.
            word.encode(errors="surrogateescape").decode()
        except UnicodeError as error:
            raise ConfigError(
                f"The argument {word!r} is no UTF-8 text. Rename the file or folder, or write the value in UTF-8."
            ) from error


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="caramel")
def cli() -> None:
    """Dataset-versioned experiments on vision-language compositionality.

    `dvc repro` rebuilds the data and all results; these commands are for what lies around it.
    """
    from caramel.runtime.environment import be_quiet, collect_seldom

    be_quiet()
    collect_seldom()


for _command in (
    new_projects.new,
    new_projects.upgrade,
    project.profile,
    project.doctor,
    budgeting.budget,
    quality.audit,
    refinement.refine,
    refinement.select,
    crepe_sets.crepe,
    evaluation.evaluate,
    evaluation.benchmarks,
    comparing.metrics,
    comparing.compare,
    comparing.table,
    studying.study,
    versions.pin,
    versions.verify,
    versions.runs,
    versions.get,
    versions.diff,
    releases.release,
    releases.release_model,
    releases.register,
    project.ui,
    project.timings,
    tracked_runs.tracking,
    nodes.cluster,
):
    cli.add_command(_command)
