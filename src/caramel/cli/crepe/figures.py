"""Command ``crepe figures``: draw CREPE's figures and tables of a folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.crepe.inputs import EXISTING, add_out_option
from caramel.cli.options import add_bootstrap_options
from caramel.cli.output import echo
from caramel.utils.resampling import Bootstrap

if TYPE_CHECKING:
    import pandas as pd


@click.command("figures")
@click.argument("results", type=EXISTING, required=False)
@add_out_option
@click.option(
    "--frequencies",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File frequencies_in_NAME.csv of a systematicity set, for table 8 and figure 12; repeatable.",
)
@click.option(
    "--imagenet",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CSV file with columns model and accuracy: ImageNet top-1 in per cent, for figures 7 and 8.  [default: "
    "benchmark zero_shot of RESULTS]",
)
@click.option(
    "--answers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Table of people's answers to a task of `caramel annotate make crepe`, for tables 4 and 7.",
)
@add_bootstrap_options
def draw_figures(
    results: Path | None,
    out: Path,
    frequencies: tuple[Path, ...],
    imagenet: Path | None,
    answers: Path | None,
    bootstrap: Bootstrap,
) -> None:
    """Draw CREPE's figures and tables of a results folder.

    RESULTS is a folder that `caramel eval` wrote to --out. Writes figures 4 to 8, 12 and 13 of the paper as PNG files,
    and tables 8, 15 and 16 as CSV files, to --out, as far as RESULTS has what they need. With --answers, tables 4 and 7
    are printed and written, too; then RESULTS may be left out.

    \b
    Example:
      caramel crepe figures scores/ --frequencies data/crepe_systematicity/frequencies_in_cc3m.csv --out figures/
      caramel crepe figures --answers answers.parquet --out figures/
    """
    from caramel.crepe.results.write import list_output_names, write_crepe_figures
    from caramel.errors import ConfigError
    from caramel.io.files import forbid_overwriting_inputs

    if results is None and answers is None:
        raise ConfigError("Give RESULTS, a folder that `caramel eval` wrote, or --answers.")
    metrics = results / "metrics.parquet" if results else None
    inputs = [path for path in (metrics, *frequencies, imagenet, answers) if path]
    forbid_overwriting_inputs([out / name for name in list_output_names(frequencies)], inputs)
    verified = _print_verified(answers, bootstrap) if answers else None
    written, missing = write_crepe_figures(
        results, out, frequencies=frequencies, imagenet=imagenet, verified=verified
    )
    for path in written:
        echo(str(path))
    for reason in missing:
        echo(f"Not made: {reason}.")


def _print_verified(answers: Path, bootstrap: Bootstrap) -> dict[str, pd.DataFrame]:
    """Return tables 4 and 7 of people's answers, after printing them."""
    from caramel.crepe.results.verification import format_verified, summarise_answers
    from caramel.schemas.annotation import ANNOTATIONS
    from caramel.schemas.io import read_table

    tables = summarise_answers(read_table(ANNOTATIONS, answers), repr(str(answers)), bootstrap=bootstrap)
    for name, table in tables.items():
        if not table.empty:
            echo(f"{name}, in per cent:\n{format_verified(table)}\n")
    return tables
