"""Commands that read what models did: metrics, compare, table."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import FOLDER, bootstraps, seeded
from caramel.cli.output import echo
from caramel.io.files import forbid_overwriting_inputs, write_csv, write_text

COMPARISON = "comparison.csv"  # what is written
RUN = click.Path(exists=True, path_type=Path)


@click.command()
@click.option("--benchmark", required=True, metavar="NAME", help="Benchmark that the files are of.")
@click.argument("files", nargs=-1, required=True, type=RUN)
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@bootstraps
@seeded
def metrics(benchmark: str, files: tuple[Path, ...], out: Path, n_bootstrap: int, seed: int) -> None:
    """Recompute all metrics from per-instance FILES: scores, or the authors' true/false columns.

    FILES are similarities.parquet of `caramel eval` (or its folder), or CSV, JSON, JSON Lines or Parquet of
    others. Columns: scores named as in similarities.parquet, or verdicts named as metrics (itt, tot,
    accuracy …); and, where they are known, instance_id, image_id, subset and model. Read as released are also
    the answers of GPT-4V on SugarCrepe (both orders of the options are joined) and the CSVs of BiVLC's detectors.

    \b
    Example:
      caramel metrics --benchmark sugarcrepe_pp results/vit-b-32/similarities.parquet --out again/
      caramel metrics --benchmark sugarcrepe gpt-4v-results/*-first/*.json --out gpt-4v/
    """
    from caramel.evaluation.external import run_files
    from caramel.evaluation.external.runs import compute_file_metrics, list_result_files
    from caramel.registry import BENCHMARKS
    from caramel.report.terminal import format_metrics

    forbid_overwriting_inputs(
        [out / name for name in run_files.METRICS],
        [file for path in files for file in list_result_files(path)],
    )
    result = compute_file_metrics(list(files), BENCHMARKS[benchmark], n_bootstrap=n_bootstrap, seed=seed)
    run_files.write_metrics(result, out)
    echo(format_metrics(result))
    for note in result.attrs["notes"]:
        echo(f"Note: {note}")
    echo(f"\nWritten to {out}.")


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--out", type=FOLDER, help="Folder to write comparison.csv to.")
@bootstraps
@seeded
def compare(a: str, b: str, out: Path | None, n_bootstrap: int, seed: int) -> None:
    """Compare model A with model B on the same instances: paired, clustered on the image, Holm-corrected.

    A and B are each a folder of `caramel eval` or a similarities.parquet; several, joined by commas, are
    seeds of one training. A file with several models needs the name: FOLDER::MODEL.

    Per benchmark, subset and metric: the difference with its 95 % interval, the corrected p-value, the
    effect size, and the smallest difference that this benchmark could have shown.

    \b
    Example:
      caramel compare results/tuned results/base --out results/tuned-base
      caramel compare results/tuned-1,results/tuned-2,results/tuned-3 results/base
    """
    from caramel.evaluation.external.runs import read_runs, run_file
    from caramel.evaluation.results.comparison import compare_models as compared
    from caramel.report.terminal import format_comparison

    if out is not None:
        forbid_overwriting_inputs(
            [out / COMPARISON], [run_file(text) for side in (a, b) for text in side.split(",")]
        )
    comparison = compared(read_runs(a.split(",")), read_runs(b.split(",")), resamples=n_bootstrap, seed=seed)
    if out is not None:
        write_csv(out / COMPARISON, comparison)
    echo(format_comparison(comparison, a, b))


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RUN)
@click.option("--benchmark", required=True, metavar="NAME", help="Benchmark of the table.")
@click.option("--metric", "metrics", multiple=True, help="Metric, repeatable; left out: the benchmark's own.")
@click.option("--subset", "subsets", multiple=True, help="Subset, repeatable; left out: all of them.")
@click.option(
    "--style",
    default="markdown",
    show_default=True,
    type=click.Choice(["markdown", "latex", "csv"]),
    help="Form of the table.",
)
@click.option("--published/--no-published", default=True, show_default=True, help="Rows of the papers too.")
@click.option("--seeds", is_flag=True, help="Models NAME-1, NAME-2 … are training seeds of NAME: one row.")
@click.option("--intervals", is_flag=True, help="Show 95 % intervals.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File; left out: the terminal.")
@bootstraps
@seeded
def table(
    runs: tuple[Path, ...],
    benchmark: str,
    metrics: tuple[str, ...],
    subsets: tuple[str, ...],
    style: str,
    published: bool,
    seeds: bool,
    intervals: bool,
    out: Path | None,
    n_bootstrap: int,
    seed: int,
) -> None:
    """Write a paper's table from RUNS, folders of `caramel eval` or `caramel metrics`, beside the published rows.

    Published are rows by a score that a measured model has: cosine, matching head, VQAScore … The best is bold only where it is significantly better than every other measured model.

    \b
    Example:
      caramel table results/vit-b-32 results/tuned --benchmark sugarcrepe --style latex --out table.tex
    """
    from caramel.evaluation.external import run_files
    from caramel.evaluation.external.runs import ANSWERS, run_file
    from caramel.registry import BENCHMARKS
    from caramel.report.paper_table import format_paper_table

    if out is not None:
        read = [
            file for run in runs for file in (run_file(str(run)), run / ANSWERS, run / run_files.METRICS[0])
        ]
        forbid_overwriting_inputs([out], read)
    similarities = run_files.read_similarities(runs)
    notes = run_files.check_releases(runs, benchmark)
    text = format_paper_table(
        similarities,
        BENCHMARKS[benchmark],
        metrics=metrics,
        subsets=subsets,
        published=published,
        style=style,  # type: ignore[arg-type]
        resamples=n_bootstrap,
        seed=seed,
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
