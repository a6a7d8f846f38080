"""Define what commands share: types of options, groups of options as one object, and help that lists backends."""

from __future__ import annotations

import copy
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from caramel.api import MAX_SEED
from caramel.errors import BackendError, ConfigError
from caramel.io.validators import format_value
from caramel.utils.resampling import Bootstrap

Command = Callable[..., Any]
SEED = click.IntRange(0, MAX_SEED)
MOST_RESAMPLES = 100_000  # as evaluate.n_bootstrap in params.yaml: more add no precision and take long
FOLDER = click.Path(file_okay=False, path_type=Path)
FORMAT_HELP = "Format of the data set; needed if a folder holds several, or for a plugin's benchmark."
LINES = "LINES"  # placeholder in a command's docstring


def collect_options(into: type, name: str) -> Callable[[Command], Command]:
    """Return a decorator that passes options to a command as one object, the argument ``name``.

    The options are those that have the names of the fields of the dataclass ``into``. The decorator must be below the
    options, so that ``--help`` and the command's parameters do not change.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call(*args: Any, **values: Any) -> Any:
            options = into(**{field.name: values.pop(field.name) for field in fields(into)})
            return command(*args, **values, **{name: options})

        return call

    return decorate


@dataclass(frozen=True)
class CrossValidationOptions:
    """Options of the cross-validation."""

    folds: int
    seed: int


def add_bootstrap_options(command: Command) -> Command:
    """Add ``--n-bootstrap`` and ``--seed``; the command gets them as ``bootstrap: Bootstrap``."""
    command = collect_options(Bootstrap, "bootstrap")(command)
    for option in (
        click.option(
            "--seed",
            default=0,
            show_default=True,
            type=SEED,
            help="Random seed for bootstrap resampling.",
        ),
        click.option(
            "--n-bootstrap",
            cls=RenamedOption,
            old="--bootstrap",
            default=1000,
            show_default=True,
            type=click.IntRange(100, MOST_RESAMPLES),
            help="Number of bootstrap resamples for confidence intervals.",
        ),
    ):
        command = option(command)
    return command


def add_cross_validation_options(*, seed: int) -> Callable[[Command], Command]:
    """Return a decorator that adds ``--folds`` and ``--seed``; the command gets them as ``cross_validation``."""

    def decorate(command: Command) -> Command:
        command = collect_options(CrossValidationOptions, "cross_validation")(command)
        command = click.option(
            "--seed",
            default=seed,
            show_default=True,
            type=SEED,
            help="Random seed for folds and sampling.",
        )(command)
        return click.option(
            "--folds",
            default=5,
            show_default=True,
            type=click.IntRange(2),
            help="Number of cross-validation folds.",
        )(command)

    return decorate


add_within_option = click.option(
    "--within",
    default="subtype",
    show_default=True,
    type=click.Choice(["subtype", "all"]),
    help="Balance scores on one grid per subtype, or on one grid over all rows as published.",
)
add_acceptance_option = click.option(
    "--acceptance",
    default="equivalence",
    show_default=True,
    type=click.Choice(["equivalence", "not_refuted"]),
    help="equivalence: the interval must show that the accuracy is low enough; not_refuted: for small sets, "
    "it must not show the opposite.",
)


class RenamedOption(click.Option):
    """An option with an old name that still works but is not in the help."""

    def __init__(self, declarations: Sequence[str], *, old: str, **settings: Any) -> None:
        super().__init__(declarations, **settings)
        self.old = old

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Register both names with the parser."""
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=[self.old], dest=self.name, action="store", nargs=self.nargs)


class _ErrataFile(click.Path):
    """A file of errata, or the name of those that caramel holds."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        from caramel.benchmarks.errata import KNOWN

        if value == KNOWN:
            return value
        try:
            return super().convert(value, param, ctx)
        except (click.BadParameter, ValueError):  # ValueError: a zero byte, as a config file may have
            self.fail(
                f"{format_value(value)} is not a file. Give a file of errata, or `{KNOWN}`.", param, ctx
            )


ERRATA_FILE = _ErrataFile(exists=True, dir_okay=False)


def build_listing_command(list_lines: Callable[[], Sequence[str]]) -> type[click.Command]:
    """Return a command class that replaces ``LINES`` in its help; the lines are computed only for the help.

    If they cannot be computed, such as with a plugin that has a name of caramel, the help says why.
    """

    class Listing(click.Command):
        def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            assert self.help
            try:
                lines = list_lines()
            except BackendError as error:
                lines = [str(error)]
            filled = copy.copy(self)  # so that the help is computed anew where it is shown again
            filled.help = inspect.cleandoc(self.help).replace(LINES, "\n  ".join(lines))
            click.Command.format_help_text(filled, ctx, formatter)

    return Listing


add_set_option = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Value that differs from the profile, by dotted key; repeatable.",
)


def parse_set_options(values: tuple[str, ...]) -> dict[str, str]:
    """Return ``key=value`` texts as a mapping.

    Raises:
        ConfigError: a text is not ``key=value``.
    """
    settings = {}
    for value in values:
        key, sign, text = value.partition("=")
        if not sign or not key:
            raise ConfigError(f"--set {value!r} is not key=value, as in --set scenes.train=2000.")
        settings[key] = text
    return settings
