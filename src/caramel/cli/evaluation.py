"""Commands that score models: eval, and benchmarks, which lists what they can be scored on."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from caramel.cli.options import FOLDER, bootstraps, build_listing_command, seeded
from caramel.cli.output import echo
from caramel.errors import ConfigError, redact_secrets

if TYPE_CHECKING:
    from caramel.evaluation.benchmark_source import BenchmarkSource

STORE, TRIALS = "work/embeddings", "work/eval"


class _BatchSize(click.ParamType):  # type: ignore[type-arg]
    """A whole number from 1, or ``auto``."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value is None or value == "auto":
            return None
        return int(click.IntRange(1).convert(value, param, ctx))


def _list_family_help() -> list[str]:
    from caramel.models.specs import format_families_help

    return format_families_help()


@click.command("eval", cls=build_listing_command(_list_family_help))
@click.option(
    "--model", "models", required=True, multiple=True, metavar="SPEC", help="Model, repeatable; see below."
)
@click.option(
    "--benchmark",
    "benchmarks",
    required=True,
    metavar="NAME[,NAME…]",
    help="Benchmarks; `caramel benchmarks` lists them.",
)
@click.option("--data", required=True, type=FOLDER, help="Folder that holds one folder per benchmark.")
@click.option(
    "--images",
    type=FOLDER,
    help="Folder of the images, or of a folder of images per benchmark; left out: the benchmark's own folder.",
)
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@click.option(
    "--batch-size",
    default="auto",
    show_default=True,
    type=_BatchSize(),
    help="Items per forward pass; auto: the largest that is worth it and fits.",
)
@click.option(
    "--precision",
    default="fp32",
    show_default=True,
    type=click.Choice(["fp32", "bf16", "fp16"]),
    help="Of the forward passes.",
)
@click.option("--limit", type=click.IntRange(1), help="Only the first instances of each benchmark.")
@click.option(
    "--missing",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="What a missing image is: fail: an error; skip: the instances that need it have no score.",
)
@click.option("--dry-run", is_flag=True, help="Only say what is missing; exit with code 1 if anything is.")
@click.option("--store", default=STORE, show_default=True, type=FOLDER, help="Folder of kept embeddings.")
@click.option(
    "--executor",
    type=click.Choice(["auto", "inline", "ray"]),
    default="auto",
    show_default=True,
    help="auto: Ray where there are several GPUs or RAY_ADDRESS is set.",
)
@bootstraps
@seeded
def evaluate(
    models: tuple[str, ...],
    benchmarks: str,
    data: Path,
    images: Path | None,
    out: Path,
    device: str,
    batch_size: int | None,
    precision: str,
    limit: int | None,
    missing: Literal["fail", "skip"],
    dry_run: bool,
    store: Path,
    executor: str,
    n_bootstrap: int,
    seed: int,
) -> None:
    """Score models on benchmarks, with intervals.

    Writes similarities.parquet (per instance), metrics.parquet and metrics.csv to --out (and left_out.parquet,
    where rows of a benchmark's files ask nothing), prints a table, and logs one MLflow run per model and benchmark. Embeddings are kept: what was encoded once is not
    encoded again, and a broken run goes on where it stopped.

    \b
    SPEC is FAMILY:TARGET, or LABEL=FAMILY:TARGET to name the model in tables; models:/NAME/VERSION or models:/NAME@ALIAS
    is one that `caramel register` put into MLflow's registry:
      LINES

    \b
    Example:
      caramel eval --model ViT-B-32-quickgelu:openai --benchmark sugarcrepe,sugarcrepe_pp \\
        --data benchmarks/ --images coco/val2017 --out results/vit-b-32
      caramel eval --model blind:probe --benchmark sugarcrepe --data benchmarks/ --out results/blind
    """
    from caramel.evaluation import evaluate as library
    from caramel.evaluation.external import run_files
    from caramel.evaluation.preflight import find_problems as find_missing
    from caramel.release.publishing_models.model_registry import resolve_spec
    from caramel.report.terminal import format_metrics

    _check_addresses(models)
    models = tuple(map(resolve_spec, models))
    sources = _locate_sources(benchmarks, data, images, missing)
    if dry_run:
        lines = find_missing(models, sources, limit)
        echo("\n".join(lines) if lines else "Nothing is missing.")
        sys.exit(1 if lines else 0)
    run_files.prepare_folder(out, [(source.benchmark, source.data) for source in sources])
    result = library.run_evaluation(
        models,
        sources,
        device=device,
        precision=precision,
        batch_size=batch_size,
        n_bootstrap=n_bootstrap,
        seed=seed,
        executor=library.select_executor() if executor == "auto" else executor,  # type: ignore[arg-type]
        store=store,
        folder=TRIALS,
        limit=limit,
    )
    run_files.write_run(out, *result)
    echo(format_metrics(result.metrics))
    if limit is not None:
        echo(f"Of each benchmark the first {limit} instances were scored (--limit).")
    echo(f"\nWritten to {out}.")


def _check_addresses(models: Sequence[str]) -> None:
    """Check the models' addresses before anything is written: runs and tables would keep a password or key in them.

    Raises:
        ConfigError: an address holds a password or key.
        BackendError: what stands behind its # is no setting; it may be a key, too.
    """
    from caramel.models.chat.settings import parse_settings

    for model in models:
        if (redacted := redact_secrets(model)) != model:
            raise ConfigError(
                f"Model {redacted!r}: its address holds a password or key, which runs and tables would keep. Leave it out, and set "
                f"CARAMEL_CHAT_KEY."
            )
        address, _, fragment = model.partition("#")
        if "://" in address:
            parse_settings(fragment)


@click.command()
@click.argument("name", required=False)
def benchmarks(name: str | None) -> None:
    """List the benchmarks, or say of one where it is published and what to put where.

    \b
    Example:
      caramel benchmarks
      caramel benchmarks sugarcrepe
    """
    from caramel.registry import BENCHMARKS

    if name is None:
        for known in BENCHMARKS:
            echo(f"{known:24}{', '.join(BENCHMARKS[known].metrics)}")
        return
    benchmark = BENCHMARKS[name]
    echo(
        f"{benchmark.name}\nmetrics: {', '.join(benchmark.metrics)}\n{benchmark.layout}\nChecked against: {benchmark.confirmed}."
    )


def _locate_sources(
    benchmarks: str, data: Path, images: Path | None, missing: Literal["fail", "skip"]
) -> list[BenchmarkSource]:
    """Return where each benchmark lies; see ``source_of``.

    Raises:
        ConfigError: a benchmark stands twice, or there is none.
        BackendError: there is none of that name.
    """
    from caramel.evaluation.benchmark_source import locate_benchmark
    from caramel.registry import BENCHMARKS

    names = [name.strip() for name in benchmarks.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"--benchmark {benchmarks!r} must name benchmarks, each once, joined by commas.")
    for name in names:
        BENCHMARKS.get_target(name)
    folder = Path(os.path.realpath(data))  # a circle of links, too
    pictures = Path(os.path.realpath(images)) if images else None
    return [locate_benchmark(name, folder, pictures, missing) for name in names]
