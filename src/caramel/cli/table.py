"""Command ``table``: write a results table beside the published rows."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import add_bootstrap_options
from caramel.cli.output import echo
from caramel.io.files import forbid_overwriting_inputs, write_csv, write_text
from caramel.utils.resampling import Bootstrap


@click.command("table")
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--benchmark", required=True, metavar="NAME", help="Benchmark of the table.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Metric to show, repeatable.  [default: the benchmark's own metrics]",
)
@click.option(
    "--subset", "subsets", multiple=True, help="Subset to show, repeatable.  [default: all subsets]"
)
@click.option(
    "--style",
    default="markdown",
    show_default=True,
    type=click.Choice(["markdown", "latex", "csv"]),
    help="Format of the table.",
)
@click.option(
    "--published/--no-published", default=True, show_default=True, help="Add the rows of the papers."
)
@click.option(
    "--seeds",
    is_flag=True,
    help="Treat models NAME-1, NAME-2 … as training seeds of NAME, in one row.",
)
@click.option("--intervals", is_flag=True, help="Show 95 % intervals.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write.  [default: the terminal]"
)
@click.option(
    "--failures",
    type=click.Path(dir_okay=False, path_type=Path),
    help="CSV file to write with the instances that most of the models fail, by metric.",
)
@add_bootstrap_options
def write_results_table(
    runs: tuple[Path, ...],
    benchmark: str,
    metrics: tuple[str, ...],
    subsets: tuple[str, ...],
    style: str,
    published: bool,
    seeds: bool,
    intervals: bool,
    out: Path | None,
    failures: Path | None,
    bootstrap: Bootstrap,
) -> None:
    """Write a paper's results table beside the published rows.

    RUNS are folders of `caramel eval` or `caramel metrics`. A published row is shown if a measured model has the same
    type of score: cosine, matching head, VQAScore … The best model is bold only if it is significantly better than
    every other measured model.

    \b
    Example:
      caramel table results/vit-b-32 results/tuned --benchmark sugarcrepe --style latex --out table.tex
      caramel table results/* --benchmark sugarcrepe_pp --metric itt --metric tot --failures failures.csv
    """
    from caramel.evaluation.external import run_files
    from caramel.evaluation.external.runs import ANSWERS_FILE, run_file
    from caramel.evaluation.results.common_failures import find_common_failures
    from caramel.registry import BENCHMARKS
    from caramel.report.paper_table import format_paper_table

    targets = [path for path in (out, failures) if path is not None]
    if targets:
        read = [
            file
            for run in runs
            for file in (run_file(str(run)), run / ANSWERS_FILE, run / run_files.METRICS_FILES[0])
        ]
        forbid_overwriting_inputs(targets, read)
    similarities = run_files.read_similarities(runs)
    notes = run_files.check_releases(runs, benchmark)
    if failures is not None:
        chosen = metrics or BENCHMARKS[benchmark].metrics
        write_csv(failures, find_common_failures(similarities, benchmark, chosen))
    text = format_paper_table(
        similarities,
        BENCHMARKS[benchmark],
        metrics=metrics,
        subsets=subsets,
        published=published,
        style=style,  # type: ignore[arg-type]
        bootstrap=bootstrap,
        further=run_files.read_unscored_metrics(runs),
        seeds=seeds,
        intervals=intervals,
        notes=notes,
    )
    for note in notes if style == "csv" else ():  # the other styles have it below the table
        echo(f"Note: {note}", err=True)
    if out is None:
        echo(text)
        return
    write_text(out, text + "\n")
    echo(f"Wrote {out}.")
