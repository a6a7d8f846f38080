"""Command ``annotate decide``: make decisions from people's answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.output import echo
from caramel.io.files import forbid_overwriting_inputs

if TYPE_CHECKING:
    from caramel.annotation.agreement.decide import DecisionMethod


@click.command("decide")
@click.argument(
    "answers", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Parquet file to write."
)
@click.option(
    "--method",
    default="majority",
    show_default=True,
    type=click.Choice(["majority", "dawid_skene"]),
    help="majority: most votes, a tie is undecided; dawid_skene: weigh annotators by their estimated errors.",
)
@click.option(
    "--min-answers",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Least number of answers to an item; an item with fewer is undecided.",
)
def write_decisions(answers: tuple[Path, ...], out: Path, method: DecisionMethod, min_answers: int) -> None:
    """Make decisions from people's answers.

    ANSWERS are tables of `caramel annotate answers`, one per task. Answers of task `resolve` replace what was corrected
    differently in task `correct`. The stages read inputs/annotations/images/decisions.parquet and
    inputs/annotations/paraphrases/decisions.parquet (annotation.data_dir).

    \b
    Example:
      caramel annotate decide choose.parquet fits.parquet --out inputs/annotations/images/decisions.parquet
    """
    from caramel.annotation.agreement.decide import decide_answers
    from caramel.schemas.annotation import ANNOTATIONS
    from caramel.schemas.decisions import DECISIONS
    from caramel.schemas.io import read_table, write_table

    forbid_overwriting_inputs([out], list(answers))
    tables = [(repr(str(path)), read_table(ANNOTATIONS, path)) for path in answers]
    decisions = decide_answers(tables, method=method, min_answers=min_answers)
    write_table(DECISIONS, decisions, out)
    for task, rows in decisions.groupby("task"):
        undecided = int(rows["decision"].isna().sum())
        single = int((rows["annotators"].str.len() == 1).sum())
        echo(
            f"{task}: {len(rows) - undecided:,} decisions, {undecided:,} undecided, {single:,} on the answer of one person."
        )
    echo(f"Written to {out}.")
