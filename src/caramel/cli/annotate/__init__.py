"""Commands ``annotate``: have people judge items, and use what they say. One file per command."""

from __future__ import annotations

import click

from caramel.cli.annotate.agreement import print_agreement
from caramel.cli.annotate.baseline import score_human_baseline
from caramel.cli.annotate.calibrate import calibrate_judge
from caramel.cli.annotate.decide import write_decisions
from caramel.cli.annotate.sample_size import print_sample_size


@click.group("annotate")
def annotate_group() -> None:
    """Have people judge images and captions.

    docs/agreement.md describes agreement, decisions and the human baseline.

    \b
    Example:
      caramel annotate agreement answers.parquet
      caramel annotate decide answers.parquet --out inputs/annotations/decisions.parquet
    """


for _command in (print_agreement, write_decisions, calibrate_judge, score_human_baseline, print_sample_size):
    annotate_group.add_command(_command)
