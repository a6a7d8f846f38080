"""Command ``metrics``: compute metrics from the per-instance files of any program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.options import FOLDER, add_bootstrap_options
from caramel.cli.output import echo
from caramel.errors import ConfigError
from caramel.io.files import forbid_overwriting_inputs, write_csv
from caramel.io.output_paths import remove_file
from caramel.utils.resampling import Bootstrap

if TYPE_CHECKING:
    from caramel.benchmarks.errata import Corrections

ERRATA = "errata.csv"  # the file in --out that says how each figure moves


@click.command("metrics")
@click.option("--benchmark", required=True, metavar="NAME", help="Benchmark that the files belong to.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@click.option(
    "--errata",
    metavar="FILE",
    help="Corrections of the benchmark's items (docs/evaluation.md), or `known` for those that caramel holds. Needs --data.",
)
@click.option(
    "--data", type=FOLDER, help="Folder that holds one folder per benchmark; --errata is checked against it."
)
@add_bootstrap_options
def compute_metrics(
    benchmark: str,
    files: tuple[Path, ...],
    out: Path,
    errata: str | None,
    data: Path | None,
    bootstrap: Bootstrap,
) -> None:
    """Compute all metrics from per-instance scores or answers.

    FILES are similarities.parquet of `caramel eval` (or its folder), or CSV, JSON, JSON Lines or Parquet files of
    other programs. Their columns are scores named as in similarities.parquet, or true/false answers named as metrics
    (itt, tot, accuracy …), and, if known, instance_id, image_id, subset and model. Two releases are also read as
    published: the answers of GPT-4V on SugarCrepe (both orders of the options are joined), and the CSV files of
    BiVLC's detectors.

    With --errata, the metrics are those of the corrected items. It also prints how each figure moves, and writes it to
    errata.csv. An erratum that does not fit its item is an error.

    \b
    Example:
      caramel metrics --benchmark sugarcrepe_pp results/vit-b-32/similarities.parquet --out again/
      caramel metrics --benchmark sugarcrepe gpt-4v-results/*-first/*.json --out gpt-4v/
      caramel metrics --benchmark sugarcrepe_pp results/vit-b-32 --errata known --data benchmarks/ --out corrected/
    """
    from caramel.benchmarks.errata import find_errata_file
    from caramel.evaluation.external import run_files
    from caramel.evaluation.external.runs import compute_file_metrics, list_result_files
    from caramel.evaluation.results.errata_effect import ErrataFilter, compare_metrics
    from caramel.registry import BENCHMARKS
    from caramel.report.terminal import format_errata_effect, format_metrics

    if (errata is None) != (data is None):
        raise ConfigError(
            "--errata needs --data, the folder of the benchmark's files, and --data is only for --errata."
        )
    corrections = _read_corrections(benchmark, errata, data) if errata and data else None
    read = [file for path in files for file in list_result_files(path)]
    read += [path for path in (data, find_errata_file(errata, benchmark) if errata else None) if path]
    forbid_overwriting_inputs([out / name for name in (*run_files.METRICS_FILES, ERRATA)], read)
    result = compute_file_metrics(list(files), BENCHMARKS[benchmark], bootstrap=bootstrap)
    notes = result.attrs["notes"]
    if corrections is None:
        echo(format_metrics(result))
        remove_file(out / ERRATA)
    else:
        chosen = ErrataFilter(corrections)
        before = result
        result = compute_file_metrics(
            list(files), BENCHMARKS[benchmark], bootstrap=bootstrap, select=chosen.select
        )
        notes = [*notes, *chosen.format_notes()]
        moves = compare_metrics(before, result)
        echo(format_errata_effect(moves))
        write_csv(out / ERRATA, moves)
    run_files.write_metrics(result, out)
    for note in notes:
        echo(f"Note: {note}")
    echo(f"\nWritten to {out}.")


def _read_corrections(benchmark: str, errata: str, data: Path) -> Corrections:
    """Return the errata of a benchmark, checked against its files."""
    from caramel.benchmarks.errata import apply_errata, find_errata_file, read_errata
    from caramel.evaluation.benchmark_source import locate_benchmark, read_task

    task = read_task(locate_benchmark(benchmark, data, None))
    return apply_errata(read_errata(find_errata_file(errata, benchmark), benchmark), task)
