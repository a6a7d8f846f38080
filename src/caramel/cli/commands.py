"""Collect all commands by section, and turn errors into one message and an exit code.

Heavy packages are imported inside the commands, so that ``caramel --help`` is fast. ``run_cli`` prints every error
that the user can fix without a traceback.
"""

from __future__ import annotations

import copy
import errno
import io
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from caramel.cli.annotate import annotate_group
from caramel.cli.audit import audit_path
from caramel.cli.batch import batch_group
from caramel.cli.benchmarks import list_benchmarks
from caramel.cli.cluster import cluster_group
from caramel.cli.compare import compare_runs
from caramel.cli.config import config_group, use_profile
from caramel.cli.correct_score import correct_scores
from caramel.cli.crepe import crepe_group
from caramel.cli.detect import detect_synthetic_items
from caramel.cli.diff import print_version_diff
from caramel.cli.doctor import diagnose_project
from caramel.cli.estimate_cost import estimate_caption_cost
from caramel.cli.eval import evaluate_models
from caramel.cli.explore import explore_results
from caramel.cli.get import get_pinned_version
from caramel.cli.metrics import compute_metrics
from caramel.cli.models import list_models
from caramel.cli.new import create_new_project
from caramel.cli.output import echo
from caramel.cli.pin import pin_version
from caramel.cli.probe import probe_models
from caramel.cli.refine import refine_path
from caramel.cli.register import register_trained_model
from caramel.cli.release import release_version
from caramel.cli.release_model import release_trained_model
from caramel.cli.reproduce import reproduce_tables
from caramel.cli.runs import list_version_runs
from caramel.cli.select import select_best_negatives
from caramel.cli.study import run_study
from caramel.cli.table import write_results_table
from caramel.cli.timings import print_timings
from caramel.cli.tracking import tracking_group
from caramel.cli.ui import serve_tracking_ui
from caramel.cli.upgrade import upgrade_this_project
from caramel.cli.verify import verify_version
from caramel.errors import CaramelError, ConfigError

if TYPE_CHECKING:
    from caramel.runtime.environment import LogLevel

SECTIONS: Mapping[str, Sequence[click.Command]] = {
    "Evaluate": (
        evaluate_models,
        list_benchmarks,
        list_models,
        compute_metrics,
        compare_runs,
        write_results_table,
        correct_scores,
        explore_results,
        detect_synthetic_items,
        probe_models,
        reproduce_tables,
        run_study,
    ),
    "Data": (
        audit_path,
        refine_path,
        select_best_negatives,
        annotate_group,
        crepe_group,
        estimate_caption_cost,
        batch_group,
    ),
    "Versions": (
        pin_version,
        verify_version,
        print_version_diff,
        get_pinned_version,
        list_version_runs,
        release_version,
        release_trained_model,
        register_trained_model,
    ),
    "Project": (
        create_new_project,
        upgrade_this_project,
        config_group,
        diagnose_project,
        print_timings,
        serve_tracking_ui,
        tracking_group,
    ),
    "Cluster": (cluster_group,),
}
# Old name -> new name and command; kept for one version.
RENAMED: Mapping[str, tuple[str, click.Command]] = {
    "profile": ("config use", use_profile),
    "budget": ("estimate-cost", estimate_caption_cost),
}
CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), " Free some space there, or give another path."),
    **dict.fromkeys((errno.EROFS, errno.ENOTDIR, errno.EEXIST), " Give another path."),
    **dict.fromkeys((errno.EACCES, errno.EPERM), " Change its permissions, or give another path."),
}


class SectionedGroup(click.Group):
    """A group whose help lists its commands in titled sections."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list of commands for each section."""
        width = max(len(command.name or "") for commands in SECTIONS.values() for command in commands)
        limit = formatter.width - 6 - width
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        ((command.name or "").ljust(width), command.get_short_help_str(limit))
                        for command in commands
                    ]
                )


def run_cli(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code: 1, with one message, for an error that the user can fix."""
    try:
        check_arguments(sys.argv[1:] if arguments is None else arguments)
        return cli(arguments, standalone_mode=False) or 0
    except click.ClickException as error:
        buffer = io.StringIO()  # click does not escape file names; ``echo`` does
        error.show(buffer)
        echo(buffer.getvalue().rstrip("\n"), err=True)
        return error.exit_code
    except click.Abort as stopped:
        # Raised after Ctrl-C, or after a file that ends too soon, which is an error of its own.
        raise stopped.__cause__ or KeyboardInterrupt from None
    except CaramelError as error:
        logging.getLogger("caramel").debug("Where the error occurred:", exc_info=True)
        echo(f"Error: {error}", err=True)
    except OSError as error:  # a folder that cannot be written, a full disk
        message = f"{error.strerror}: {error.filename!r}.{CURES.get(error.errno or 0, '')}"
        echo(f"Error: {message if error.filename else error}", err=True)
    return 1


def check_arguments(arguments: list[str]) -> None:
    """Raise a ConfigError if an argument is not UTF-8: tables and files cannot hold its surrogate characters."""
    for word in arguments:
        try:
            # In an ASCII locale, UTF-8 bytes become surrogates; this restores them.
            word.encode(errors="surrogateescape").decode()
        except UnicodeError as error:
            raise ConfigError(
                f"The argument {word!r} is not UTF-8 text. Rename the file or folder, or write the value in UTF-8."
            ) from error


def build_alias(command: click.Command, old: str, new: str) -> click.Command:
    """Return a hidden command ``old`` that prints the new name in one line, then runs the command."""
    alias = copy.copy(command)
    alias.name, alias.hidden = old, True

    def call(**values: Any) -> Any:
        echo(
            f"`caramel {old}` is now `caramel {new}`. The old name will be removed in the next version.",
            err=True,
        )
        assert command.callback
        return command.callback(**values)

    alias.callback = call
    return alias


@click.group(cls=SectionedGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="caramel")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Print libraries' log messages from this level up on stderr; debug adds the traceback of an error.",
)
def cli(log_level: LogLevel | None) -> None:
    """Build, audit and use hard-negative benchmarks for vision-language models.

    `dvc repro` rebuilds the data and all results of a project. These commands do everything else.
    """
    from caramel.runtime.environment import be_quiet, collect_seldom, set_log_level

    be_quiet()
    collect_seldom()
    if log_level is not None:
        set_log_level(log_level)


for _commands in SECTIONS.values():
    for _command in _commands:
        cli.add_command(_command)
for _old, (_new, _renamed) in RENAMED.items():
    cli.add_command(build_alias(_renamed, _old, _new))
