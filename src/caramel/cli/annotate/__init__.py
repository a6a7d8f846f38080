"""Commands ``annotate``: have people judge items, and use what they say. One file per command."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.annotate.accounts import add_annotator_accounts
from caramel.cli.annotate.agreement import print_agreement
from caramel.cli.annotate.answers import write_task_answers
from caramel.cli.annotate.baseline import score_human_baseline
from caramel.cli.annotate.calibrate import calibrate_judge
from caramel.cli.annotate.decide import write_decisions
from caramel.cli.annotate.exchange import export_task, import_task_answers
from caramel.cli.annotate.make import make_group
from caramel.cli.annotate.sample_size import print_sample_size
from caramel.cli.annotate.serve import serve_annotation_task


class TaskGroup(click.Group):
    """A group that takes a task file in place of a command: `caramel annotate TASK.db` serves it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `serve` before options: the group has none but --help."""
        options = args[:1] and args[0].startswith("-") and args[0] not in ctx.help_option_names
        return super().parse_args(ctx, ["serve", *args] if options else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Put `serve` before a task file."""
        if args[0] not in self.commands and (args[0].endswith(".db") or Path(args[0]).is_file()):
            args = ["serve", *args]
        return super().resolve_command(ctx, args)


@click.group("annotate", cls=TaskGroup)
def annotate_group() -> None:
    """Have people judge images and captions.

    A task is one file: instructions, items and answers. docs/annotation.md describes the page and all kinds of tasks,
    docs/agreement.md agreement, decisions and the human baseline.

    \b
    Example:
      caramel annotate make choose --out choose.db --overlap 2
      caramel annotate choose.db
      caramel annotate answers choose.db --out answers.parquet
      caramel annotate agreement answers.parquet
      caramel annotate decide answers.parquet --out inputs/annotations/images/decisions.parquet
    """


for _command in (
    make_group,
    serve_annotation_task,
    add_annotator_accounts,
    write_task_answers,
    export_task,
    import_task_answers,
    print_agreement,
    write_decisions,
    calibrate_judge,
    score_human_baseline,
    print_sample_size,
):
    annotate_group.add_command(_command)
