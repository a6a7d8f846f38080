"""Command ``metrics``: compute metrics from the per-instance files of any program."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import FOLDER, add_bootstrap_options
from caramel.cli.output import echo
from caramel.io.files import forbid_overwriting_inputs
from caramel.utils.resampling import Bootstrap


@click.command("metrics")
@click.option("--benchmark", required=True, metavar="NAME", help="Benchmark that the files belong to.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@add_bootstrap_options
def compute_metrics(benchmark: str, files: tuple[Path, ...], out: Path, bootstrap: Bootstrap) -> None:
    """Compute all metrics from per-instance scores or answers.

    FILES are similarities.parquet of `caramel eval` (or its folder), or CSV, JSON, JSON Lines or Parquet files of
    other programs. Their columns are scores named as in similarities.parquet, or true/false answers named as metrics
    (itt, tot, accuracy …), and, if known, instance_id, image_id, subset and model. Two releases are also read as
    published: the answers of GPT-4V on SugarCrepe (both orders of the options are joined), and the CSV files of
    BiVLC's detectors.

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
        [out / name for name in run_files.METRICS_FILES],
        [file for path in files for file in list_result_files(path)],
    )
    result = compute_file_metrics(list(files), BENCHMARKS[benchmark], bootstrap=bootstrap)
    run_files.write_metrics(result, out)
    echo(format_metrics(result))
    for note in result.attrs["notes"]:
        echo(f"Note: {note}")
    echo(f"\nWritten to {out}.")
