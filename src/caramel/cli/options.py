"""What several commands have: types of options, and help that lists backends."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

import click

# What is drawn takes seeds of 32 bits, and some draws of a command take the next ones.
SEED = click.IntRange(0, 2**32 - 100)
MOST_RESAMPLES = 100_000  # as evaluate.n_bootstrap in params.yaml: more tell nothing, and take for ever
FOLDER = click.Path(file_okay=False, path_type=Path)
bootstraps = click.option(
    "--bootstrap",
    default=1000,
    show_default=True,
    type=click.IntRange(100, MOST_RESAMPLES),
    help="Resamples of the intervals.",
)
folded = click.option(
    "--folds", default=5, show_default=True, type=click.IntRange(2), help="Of the cross-validation."
)
gridded = click.option(
    "--within",
    default="subtype",
    show_default=True,
    type=click.Choice(["subtype", "all"]),
    help="A grid per subtype, or one over all rows as published.",
)
seeded = click.option("--seed", default=0, show_default=True, type=SEED, help="Seed of the resamples.")
acceptances = click.option(
    "--acceptance",
    default="equivalence",
    show_default=True,
    type=click.Choice(["equivalence", "not_refuted"]),
    help="Whether a low accuracy must be shown, or (for small sets) merely not refuted.",
)
LINES = "LINES"  # in a command's docstring: where they go


def build_listing_command(lines: Callable[[], Sequence[str]]) -> type[click.Command]:
    """Return the class of a command in whose help some lines stand, which are asked for only when it is shown."""

    class Listing(click.Command):
        def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            assert self.help
            self.help = inspect.cleandoc(self.help).replace(LINES, "\n  ".join(lines()))
            super().format_help_text(ctx, formatter)

    return Listing
