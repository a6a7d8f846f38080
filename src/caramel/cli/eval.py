"""Command ``eval``: score models on benchmarks."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from caramel.cli.compute_options import (
    ComputeOptions,
    add_compute_options,
    add_missing_option,
    check_model_addresses,
    score_models,
)
from caramel.cli.config_file import add_config_option
from caramel.cli.options import (
    ERRATA_FILE,
    FOLDER,
    add_bootstrap_options,
    build_listing_command,
)
from caramel.cli.output import add_json_option, echo, list_records, print_json
from caramel.errors import ConfigError
from caramel.utils.resampling import Bootstrap

if TYPE_CHECKING:
    from caramel.evaluation.benchmark_source import BenchmarkSource


def _list_family_help() -> list[str]:
    from caramel.models.specs import format_families_help

    return format_families_help()


@click.command("eval", cls=build_listing_command(_list_family_help))
@click.option(
    "--model",
    "models",
    required=True,
    multiple=True,
    metavar="SPEC",
    help="Model, repeatable; the forms of SPEC are below.",
)
@click.option(
    "--benchmark",
    "benchmarks",
    metavar="NAME[,NAME…]",
    help="Benchmarks; `caramel benchmarks` lists them.",
)
@click.option("--data", type=FOLDER, help="Folder that holds one folder per benchmark.")
@click.option(
    "--images",
    type=FOLDER,
    help="Folder of the images, or of one folder of images per benchmark.  [default: the benchmark's own folder]",
)
@click.option("--out", type=FOLDER, help="Folder to write to.")
@add_compute_options
@click.option("--limit", type=click.IntRange(1), help="Score only the first instances of each benchmark.")
@add_missing_option
@click.option(
    "--errata",
    type=ERRATA_FILE,
    help="Corrections of the benchmark's items (docs/evaluation.md) that are applied first, or `known` for those that caramel "
    "holds. For one benchmark.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only list what is missing; exit with code 1 if anything is.",
)
@click.option(
    "--mock",
    is_flag=True,
    help="Only try the models on one made instance of each benchmark, without data and --out; exit with code 1 if one fails.",
)
@add_json_option
@add_config_option
@add_bootstrap_options
def evaluate_models(
    models: tuple[str, ...],
    benchmarks: str | None,
    data: Path | None,
    images: Path | None,
    out: Path | None,
    limit: int | None,
    missing: Literal["fail", "skip"],
    errata: str | None,
    dry_run: bool,
    mock: bool,
    compute: ComputeOptions,
    bootstrap: Bootstrap,
) -> None:
    """Score models on benchmarks, with confidence intervals.

    Writes similarities.parquet (one row per instance), metrics.parquet and metrics.csv to --out, and left_out.parquet
    if a benchmark's files hold rows that define no query. Prints a table, and logs one MLflow run per model and
    benchmark. Embeddings are cached, and an interrupted run continues where it stopped.

    \b
    SPEC is FAMILY:TARGET, or LABEL=FAMILY:TARGET to name the model in tables; models:/NAME/VERSION or models:/NAME@ALIAS
    is a model that `caramel register` put into MLflow's registry:
      LINES

    \b
    Example:
      caramel eval --model ViT-B-32-quickgelu:openai --benchmark sugarcrepe,sugarcrepe_pp \\
        --data benchmarks/ --images coco/val2017 --out results/vit-b-32
      caramel eval --model blind:probe --benchmark sugarcrepe --data benchmarks/ --out results/blind
      caramel eval --config eval.yaml --out results/again
      caramel eval --model dual:new-model/ --mock
    """
    from caramel.evaluation.external import run_files
    from caramel.evaluation.preflight import find_problems
    from caramel.release.publishing_models.model_registry import resolve_spec
    from caramel.report.terminal import format_metrics

    check_model_addresses(models)
    models = tuple(map(resolve_spec, models))
    if mock:
        _try_models(models, benchmarks, compute)
        return
    if benchmarks is None or data is None or out is None:
        required = {"--benchmark": benchmarks, "--data": data, "--out": out}
        lacking = next(name for name, value in required.items() if value is None)
        raise click.UsageError(f"Missing option '{lacking}'.", click.get_current_context())
    sources = locate_sources(benchmarks, data, images, missing)
    if errata is not None:
        sources = [_add_errata(sources, errata)]
    if dry_run:
        # A benchmark may lack 1,000 images: the longest entries come first, or the others would scroll away.
        lines = sorted(find_problems(models, sources, limit), key=lambda entry: -entry.count("\n"))
        echo("\n".join(lines) if lines else "Nothing is missing.")
        print_json({"passed": not lines, "missing": lines})
        sys.exit(1 if lines else 0)
    run_files.prepare_folder(out, [(source.benchmark, source.data) for source in sources])
    result = score_models(models, sources, compute=compute, bootstrap=bootstrap, limit=limit)
    run_files.write_run(out, *result)
    echo(format_metrics(result.metrics))
    if limit is not None:
        echo(f"Only the first {limit} instances of each benchmark were scored (--limit).")
    echo(f"\nWritten to {out}.")
    print_json({"out": out, "limit": limit, "metrics": list_records(result.metrics)})


def _try_models(models: Sequence[str], benchmarks: str | None, compute: ComputeOptions) -> None:
    """Print what happens to each model on a made instance of each benchmark; exit with code 1 if one fails."""
    from caramel.evaluation.mock.run import MOCKED, check_mocked, run_mock
    from caramel.interfaces.settings import Compute

    names = list(MOCKED) if benchmarks is None else _parse_names(benchmarks)
    check_mocked(names)
    settings = Compute(compute.device, compute.precision)
    results = {
        model: list(run_mock(model, names, compute=settings, batch_size=compute.batch_size))
        for model in models
    }
    for model, of_model in results.items():
        counts = Counter(result.state for result in of_model)
        echo(f"{model}: {', '.join(f'{number} {state}' for state, number in counts.items())}")
        for result in of_model:
            echo(f"  {result.benchmark:24}{result.state:12}{result.message}")
    passed = not any(result.state == "failed" for of_model in results.values() for result in of_model)
    rows = [{"model": model, **asdict(result)} for model, of_model in results.items() for result in of_model]
    print_json({"passed": passed, "results": rows})
    if not passed:
        sys.exit(1)


def _parse_names(benchmarks: str) -> list[str]:
    """Return the benchmarks of ``--benchmark``.

    Raises:
        ConfigError: a benchmark is named twice, or no benchmark is named.
        BackendError: a benchmark is unknown.
    """
    from caramel.registry import BENCHMARKS

    names = [name.strip() for name in benchmarks.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            f"--benchmark {benchmarks!r} must name benchmarks, joined by commas, each only once."
        )
    for name in names:
        BENCHMARKS.get_target(name)
    return names


def locate_sources(
    benchmarks: str, data: Path, images: Path | None, missing: Literal["fail", "skip"]
) -> list[BenchmarkSource]:
    """Return where each benchmark's files are; see ``locate_benchmark``.

    Raises:
        ConfigError: a benchmark is named twice, or no benchmark is named.
        BackendError: a benchmark is unknown.
    """
    from caramel.evaluation.benchmark_source import locate_benchmark

    names = _parse_names(benchmarks)
    folder = Path(os.path.realpath(data))  # also resolves a circle of links
    image_folder = Path(os.path.realpath(images)) if images else None
    return [locate_benchmark(name, folder, image_folder, missing) for name in names]


def _add_errata(sources: Sequence[BenchmarkSource], errata: str) -> BenchmarkSource:
    """Return the only benchmark with the errata of a file, or of the package."""
    from caramel.benchmarks.errata import find_errata_file

    if len(sources) > 1:
        raise ConfigError(f"--errata {errata!r} is for one benchmark; --benchmark names {len(sources)}.")
    path = find_errata_file(errata, sources[0].benchmark)
    return replace(sources[0], errata=os.path.realpath(path))
