"""Command ``compare``: compare two models with a paired test."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import FOLDER, add_bootstrap_options
from caramel.cli.output import add_json_option, echo, list_records, print_json
from caramel.io.files import forbid_overwriting_inputs, write_csv
from caramel.utils.resampling import Bootstrap

COMPARISON = "comparison.csv"  # the file in --out


@click.command("compare")
@click.argument("a")
@click.argument("b")
@click.option("--out", type=FOLDER, help="Folder to write comparison.csv to.")
@add_json_option
@add_bootstrap_options
def compare_runs(a: str, b: str, out: Path | None, bootstrap: Bootstrap) -> None:
    """Compare two models on the same instances with paired tests.

    A and B are each a folder of `caramel eval` or a similarities.parquet. Several, joined by commas, are training
    seeds of one model. If a file holds several models, add the name: FOLDER::MODEL.

    Prints, per benchmark, subset and metric: the difference A − B with its 95 % interval (clustered by image), the
    p-value after Holm correction, the effect size, and the smallest difference that this benchmark could have shown.

    \b
    Example:
      caramel compare results/tuned results/base --out results/tuned-base
      caramel compare results/tuned-1,results/tuned-2,results/tuned-3 results/base
    """
    from caramel.evaluation.external.runs import read_runs, run_file
    from caramel.evaluation.results.comparison import compare_models
    from caramel.report.terminal import format_comparison

    if out is not None:
        forbid_overwriting_inputs(
            [out / COMPARISON], [run_file(text) for side in (a, b) for text in side.split(",")]
        )
    comparison = compare_models(
        read_runs(a.split(",")),
        read_runs(b.split(",")),
        bootstrap=bootstrap,
    )
    if out is not None:
        write_csv(out / COMPARISON, comparison)
    echo(format_comparison(comparison, a, b))
    notes = comparison.attrs.get("notes", [])
    print_json({"a": a, "b": b, "comparisons": list_records(comparison), "notes": notes})
