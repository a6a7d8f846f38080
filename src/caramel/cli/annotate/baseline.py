"""Command ``annotate baseline``: people as a row of the results table."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import FOLDER
from caramel.cli.output import echo
from caramel.io.files import forbid_overwriting_inputs


@click.command("baseline")
@click.argument("answers", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--instances",
    default=Path("data/assemble/instances.parquet"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="Table of the instances from which the items were made, with images.parquet beside it.",
)
@click.option(
    "--benchmark", default="instances", show_default=True, metavar="NAME", help="Benchmark of the instances."
)
@click.option("--name", default="people", show_default=True, help="Name of the row.")
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
def score_human_baseline(answers: Path, instances: Path, benchmark: str, name: str, out: Path) -> None:
    """Score people on a benchmark.

    ANSWERS is a table of `caramel annotate answers` of task `baseline`. Intervals count people and images. `caramel table`
    takes the folder as a run beside those of models.

    \b
    Example:
      caramel annotate baseline baseline.parquet --out results/people
      caramel table results/vit-b-32 results/people --benchmark instances --intervals
    """
    from caramel.annotation.agreement.human_row import compute_baseline_metrics
    from caramel.evaluation.external import run_files
    from caramel.registry import BENCHMARKS
    from caramel.report.terminal import format_metrics
    from caramel.schemas.annotation import ANNOTATIONS
    from caramel.schemas.images import IMAGES
    from caramel.schemas.instances import INSTANCES
    from caramel.schemas.io import read_table

    forbid_overwriting_inputs([out / file for file in run_files.METRICS_FILES], [answers, instances])
    metrics = compute_baseline_metrics(
        read_table(ANNOTATIONS, answers),
        read_table(INSTANCES, instances),
        read_table(IMAGES, instances.with_name("images.parquet"), ["image_id", "sha256"]),
        model=name,
        benchmark=BENCHMARKS[benchmark],
        where=repr(str(answers)),
    )
    run_files.write_metrics(metrics, out)
    echo(format_metrics(metrics))
    echo(f"\nWritten to {out}.")
