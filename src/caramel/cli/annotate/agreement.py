"""Command ``annotate agreement``: how far annotators agree, and which of them need a look."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import FOLDER, add_bootstrap_options
from caramel.cli.output import echo
from caramel.io.files import forbid_overwriting_inputs, write_csv
from caramel.utils.resampling import Bootstrap

FILES = ("agreement.csv", "annotators.csv")


@click.command("agreement")
@click.argument("answers", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out", type=FOLDER, help="Folder for agreement.csv and annotators.csv.  [default: only print]"
)
@add_bootstrap_options
def print_agreement(answers: Path, out: Path | None, bootstrap: Bootstrap) -> None:
    """Measure how far annotators agree, and describe each.

    ANSWERS is a table of one task and one version of its instructions, as `caramel annotate answers` writes it. Printed are
    Krippendorff's alpha, Fleiss' and Cohen's kappa with 95 % intervals, and for each annotator the agreement with the
    others and with known answers, the pace, and habits: random clicks, a preferred position, haste, fatigue.

    \b
    Example:
      caramel annotate agreement answers.parquet --out agreement/
    """
    from caramel.annotation.agreement.annotators import describe_annotators
    from caramel.annotation.agreement.answers import check_answers
    from caramel.annotation.agreement.summary import summarise_agreement
    from caramel.annotation.agreement.text_tables import format_agreement, format_annotators
    from caramel.schemas.annotation import ANNOTATIONS
    from caramel.schemas.io import read_table

    paths = [out / name for name in FILES] if out else []
    forbid_overwriting_inputs(paths, [answers])
    rows = read_table(ANNOTATIONS, answers)
    task = check_answers(rows, repr(str(answers)))
    agreement = summarise_agreement(rows, task, bootstrap=bootstrap)
    annotators = describe_annotators(rows, task, bootstrap=bootstrap)
    echo(f"Task {task}, guideline {rows['guideline'].iloc[0]}.\n")
    echo(format_agreement(agreement))
    echo("")
    echo(format_annotators(annotators))
    for path, table in zip(paths, (agreement, annotators), strict=False):
        write_csv(path, table.assign(flags=table["flags"].str.join(" ")) if "flags" in table else table)
    if out:
        echo(f"\nWritten to {out}.")
