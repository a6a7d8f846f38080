"""Command ``crepe figures``: draw CREPE's figures and tables of a folder of results."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.crepe.inputs import EXISTING, add_out_option
from caramel.cli.output import echo


@click.command("figures")
@click.argument("results", type=EXISTING)
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
def draw_figures(results: Path, out: Path, frequencies: tuple[Path, ...], imagenet: Path | None) -> None:
    """Draw CREPE's figures and tables of a results folder.

    RESULTS is a folder that `caramel eval` wrote to --out. Writes figures 4 to 8, 12 and 13 of the paper as PNG files,
    and tables 8, 15 and 16 as CSV files, to --out, as far as RESULTS has what they need.

    \b
    Example:
      caramel crepe figures scores/ --frequencies data/crepe_systematicity/frequencies_in_cc3m.csv --out figures/
    """
    from caramel.crepe.results.write import list_output_names, write_crepe_figures
    from caramel.io.files import forbid_overwriting_inputs

    inputs = [results / "metrics.parquet", *frequencies, *([imagenet] if imagenet else [])]
    forbid_overwriting_inputs([out / name for name in list_output_names(frequencies)], inputs)
    written, missing = write_crepe_figures(results, out, frequencies=frequencies, imagenet=imagenet)
    for path in written:
        echo(str(path))
    for reason in missing:
        echo(f"Not made: {reason}.")
