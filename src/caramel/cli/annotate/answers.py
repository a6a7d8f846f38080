"""Command ``annotate answers``: write the answers of a task as a table."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.output import echo
from caramel.errors import count_of
from caramel.io.files import forbid_overwriting_inputs


@click.command("answers")
@click.argument("task", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Parquet file to write."
)
def write_task_answers(task: Path, out: Path) -> None:
    """Write the answers of a task as a table.

    One row per item and annotator, as table `annotations`. Answers that were taken back are left out. Items of task
    `correct` that nobody answered have a row, too. The task may be served meanwhile.

    \b
    Example:
      caramel annotate answers choose.db --out answers.parquet
    """
    import pandas as pd

    from caramel.annotation.answers import list_unanswered_items, read_answers
    from caramel.schemas.annotation import ANNOTATIONS
    from caramel.schemas.io import write_table

    forbid_overwriting_inputs([out], [task])
    rows = read_answers(task)
    unanswered = list_unanswered_items(task)
    with_unanswered = pd.concat([rows, unanswered]) if (unanswered["task"] == "correct").any() else rows
    write_table(ANNOTATIONS, with_unanswered, out)
    skipped = int(rows["skipped"].notna().sum())
    echo(
        f"{count_of(len(rows) - skipped, 'answer')} and {count_of(skipped, 'skipped item')} by "
        f"{count_of(rows['annotator'].nunique(), 'annotator')}. Written to {out}."
    )
    if len(unanswered):
        echo(f"Without an answer yet: {count_of(len(unanswered), 'item')}.", err=True)
