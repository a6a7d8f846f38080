"""Command ``metrics``: compute metrics from the per-instance files of any program."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from caramel.cli.options import ERRATA_FILE, FOLDER, add_bootstrap_options
from caramel.cli.output import echo
from caramel.errors import ConfigError
from caramel.io.files import forbid_overwriting_inputs, write_csv
from caramel.io.output_paths import remove_file
from caramel.utils.resampling import Bootstrap

if TYPE_CHECKING:
    import pandas as pd

    from caramel.benchmarks.errata import Corrections

# files in --out beside the metrics
ERRATA = "errata.csv"  # how each figure moves
BINDING = "binding.csv"  # figures by what a corpus holds
MATCHING = "matching.csv"  # gains by matching the images and captions of a group


@click.command("metrics")
@click.option("--benchmark", required=True, metavar="NAME", help="Benchmark that the files belong to.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@click.option(
    "--errata",
    type=ERRATA_FILE,
    help="Corrections of the benchmark's items (docs/evaluation.md), or `known` for those that caramel holds. Needs --data.",
)
@click.option(
    "--data",
    type=FOLDER,
    help="Folder that holds one folder per benchmark; --errata and --matching read its captions.",
)
@click.option(
    "--binding",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of `caramel crepe index --benchmark`: also gives every figure by the compounds that the corpus holds.",
)
@click.option(
    "--matching",
    is_flag=True,
    help="Also measure what GroupMatch and test-time matching gain, beside a control with permuted groups. Needs --data.",
)
@add_bootstrap_options
def compute_metrics(
    benchmark: str,
    files: tuple[Path, ...],
    out: Path,
    errata: str | None,
    data: Path | None,
    binding: Path | None,
    matching: bool,
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

    --binding writes every figure by what a training corpus holds to binding.csv (docs/binding.md). --matching writes the
    gains of transductive wrappers to matching.csv (docs/matching.md).

    \b
    Example:
      caramel metrics --benchmark sugarcrepe_pp results/vit-b-32/similarities.parquet --out again/
      caramel metrics --benchmark sugarcrepe gpt-4v-results/*-first/*.json --out gpt-4v/
      caramel metrics --benchmark sugarcrepe_pp results/vit-b-32 --errata known --data benchmarks/ --out corrected/
      caramel metrics --benchmark sugarcrepe results/vit-b-32 --binding cc3m_index/ --out split/
      caramel metrics --benchmark winoground results/vit-b-32 --matching --data benchmarks/ --out matched/
    """
    from caramel.benchmarks.errata import find_errata_file
    from caramel.evaluation.external import run_files
    from caramel.evaluation.external.runs import compute_file_metrics, list_result_files
    from caramel.evaluation.results.errata_effect import ErrataFilter, compare_metrics
    from caramel.registry import BENCHMARKS
    from caramel.report.terminal import format_errata_effect, format_metrics

    if (data is not None) != (errata is not None or matching):
        raise ConfigError(
            "--errata and --matching need --data, the folder of the benchmark's files, and --data is only for them."
        )
    if errata is not None and (binding is not None or matching):
        raise ConfigError(
            "--errata corrects items, and --binding and --matching read those as published. Run them apart."
        )
    corrections = _read_corrections(benchmark, errata, data) if errata and data else None
    read = [file for path in files for file in list_result_files(path)]
    read += [
        path for path in (data, binding, find_errata_file(errata, benchmark) if errata else None) if path
    ]
    written = (*run_files.METRICS_FILES, ERRATA, BINDING, MATCHING)
    forbid_overwriting_inputs([out / name for name in written], read)
    compute = partial(compute_file_metrics, list(files), BENCHMARKS[benchmark], bootstrap=bootstrap)
    result = compute()
    notes = result.attrs["notes"]
    if corrections is None:
        echo(format_metrics(result))
    else:
        chosen = ErrataFilter(corrections)
        before = result
        result = compute(select=chosen.select)
        notes = [*notes, *chosen.format_notes()]
        moves = compare_metrics(before, result)
        echo(format_errata_effect(moves))
        write_csv(out / ERRATA, moves)
    run_files.write_metrics(result, out)
    for name, is_written in ((ERRATA, corrections), (BINDING, binding), (MATCHING, matching or None)):
        if is_written is None:
            remove_file(out / name)
    if binding is not None:
        notes = [*notes, *_write_binding_figures(benchmark, binding, compute, out)]
    if matching and data is not None:
        _write_matching_gains(benchmark, files, data, bootstrap, out)
    for note in notes:
        echo(f"Note: {note}")
    echo(f"\nWritten to {out}.")


def _write_binding_figures(
    benchmark: str, index: Path, compute: Callable[..., pd.DataFrame], out: Path
) -> list[str]:
    """Write and print the figures by what a corpus holds; return notes on them."""
    from caramel.crepe.binding_splits import read_binding_splits
    from caramel.evaluation.rescoring.binding_figures import compute_binding_figures
    from caramel.report.rescored import format_binding_figures

    splits = read_binding_splits(index, benchmark)
    figures = compute_binding_figures(lambda select: compute(select=select), splits)
    echo(f"\n{format_binding_figures(figures)}")
    write_csv(out / BINDING, figures)
    notes: list[str] = figures.attrs["notes"]
    return notes


def _write_matching_gains(
    benchmark: str, files: tuple[Path, ...], data: Path, bootstrap: Bootstrap, out: Path
) -> None:
    """Write and print the gains by matching."""
    import pandas as pd

    from caramel.evaluation.benchmark_source import locate_benchmark, read_task
    from caramel.evaluation.external.runs import read_runs
    from caramel.evaluation.rescoring.matching import compute_matching_gains
    from caramel.report.rescored import format_matching_gains

    rows = pd.concat(read_runs([str(path) for path in files]), ignore_index=True)
    task = read_task(locate_benchmark(benchmark, data, None))
    gains = compute_matching_gains(rows[rows["benchmark"] == benchmark], task, bootstrap=bootstrap)
    echo(f"\n{format_matching_gains(gains)}")
    write_csv(out / MATCHING, gains)


def _read_corrections(benchmark: str, errata: str, data: Path) -> Corrections:
    """Return the errata of a benchmark, checked against its files."""
    from caramel.evaluation.benchmark_source import locate_benchmark, read_task
    from caramel.evaluation.results.errata_effect import read_corrections

    return read_corrections(errata, benchmark, read_task(locate_benchmark(benchmark, data, None)))
