"""Commands that score models and read scores: eval, metrics, compare, table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from caramel.cli.options import SEED, listing
from caramel.cli.saying import say
from caramel.errors import ConfigError
from caramel.storage.files import keep_inputs, write_atomically

if TYPE_CHECKING:
    from caramel.evaluation.evaluate import Source

COMPARISON = "comparison.csv"  # what is written
MOST_RESAMPLES = 100_000  # as evaluate.bootstrap in params.yaml: more tell nothing, and take for ever
STORE, TRIALS = "work/embeddings", "work/eval"
FOLDER = click.Path(file_okay=False, path_type=Path)
RUN = click.Path(exists=True, path_type=Path)
_bootstrap = click.option(
    "--bootstrap",
    default=1000,
    show_default=True,
    type=click.IntRange(100, MOST_RESAMPLES),
    help="Resamples of the intervals.",
)
_seed = click.option("--seed", default=0, show_default=True, type=SEED, help="Seed of the resamples.")


class _BatchSize(click.ParamType):  # type: ignore[type-arg]
    """A whole number from 1, or ``auto``."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value is None or value == "auto":
            return None
        return int(click.IntRange(1).convert(value, param, ctx))


def _families() -> list[str]:
    from caramel.models.families.specs import families_help

    return families_help()


@click.command("eval", cls=listing(_families))
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
@click.option("--dry-run", is_flag=True, help="Only say what is missing; exit with code 1 if anything is.")
@click.option("--store", default=STORE, show_default=True, type=FOLDER, help="Folder of kept embeddings.")
@click.option(
    "--executor",
    type=click.Choice(["auto", "inline", "ray"]),
    default="auto",
    show_default=True,
    help="auto: Ray where there are several GPUs or RAY_ADDRESS is set.",
)
@_bootstrap
@_seed
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
    dry_run: bool,
    store: Path,
    executor: str,
    bootstrap: int,
    seed: int,
) -> None:
    """Score models on benchmarks, with intervals.

    Writes similarities.parquet (per instance), metrics.parquet and metrics.csv to --out, prints a table,
    and logs one MLflow run per model and benchmark. Embeddings are kept: what was encoded once is not
    encoded again, and a broken run goes on where it stopped.

    \b
    SPEC is FAMILY:TARGET, or LABEL=FAMILY:TARGET to name the model in tables:
      LINES

    \b
    Example:
      caramel eval --model ViT-B-32-quickgelu:openai --benchmark sugarcrepe,sugarcrepe_pp \\
        --data benchmarks/ --images coco/val2017 --out results/vit-b-32
      caramel eval --model blind:probe --benchmark sugarcrepe --data benchmarks/ --out results/blind
    """
    from caramel.evaluation import evaluate as library
    from caramel.evaluation.results import run_files
    from caramel.report.terminal import metrics_text

    sources = _sources(benchmarks, data, images)
    if dry_run:
        lines = library.missing(models, sources, limit)
        say("\n".join(lines) if lines else "Nothing is missing.")
        sys.exit(1 if lines else 0)
    run_files.prepare(out, [(source.benchmark, source.data) for source in sources])
    found = library.evaluate(
        models,
        sources,
        device=device,
        precision=precision,
        batch=batch_size,
        bootstrap=bootstrap,
        seed=seed,
        executor=library.automatic_executor() if executor == "auto" else executor,  # type: ignore[arg-type]
        store=store,
        folder=TRIALS,
        limit=limit,
    )
    run_files.write_run(out, found.similarities, found.answers, found.metrics)
    say(metrics_text(found.metrics))
    say(f"\nWritten to {out}.")


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
            say(f"{known:22}{', '.join(BENCHMARKS[known].metrics)}")
        return
    found = BENCHMARKS[name]
    say(
        f"{found.name}\nmetrics: {', '.join(found.metrics)}\n{found.layout}\nChecked against: {found.confirmed}."
    )


@click.command()
@click.option("--benchmark", required=True, metavar="NAME", help="Benchmark that the files are of.")
@click.argument("files", nargs=-1, required=True, type=RUN)
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@_bootstrap
@_seed
def metrics(benchmark: str, files: tuple[Path, ...], out: Path, bootstrap: int, seed: int) -> None:
    """Recompute all metrics from per-instance FILES: scores, or the authors' true/false columns.

    FILES are similarities.parquet of `caramel eval` (or its folder), or CSV, JSON, JSON Lines or Parquet of
    others. Columns: scores named as in similarities.parquet, or verdicts named as metrics (itt, tot,
    accuracy …); and, where they are known, instance_id, image_id, subset and model.

    \b
    Example:
      caramel metrics --benchmark sugarcrepe_pp results/vit-b-32/similarities.parquet --out again/
    """
    from caramel.evaluation.results import run_files
    from caramel.evaluation.results.published_files import files_of, metrics_of
    from caramel.registry import BENCHMARKS
    from caramel.report.terminal import metrics_text

    keep_inputs(
        [out / name for name in run_files.METRICS], [file for path in files for file in files_of(path)]
    )
    found = metrics_of(list(files), BENCHMARKS[benchmark], bootstrap=bootstrap, seed=seed)
    run_files.write_metrics(found, out)
    say(metrics_text(found))
    for note in found.attrs["notes"]:
        say(f"Note: {note}")
    say(f"\nWritten to {out}.")


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--out", type=FOLDER, help="Folder to write comparison.csv to.")
@_bootstrap
@_seed
def compare(a: str, b: str, out: Path | None, bootstrap: int, seed: int) -> None:
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
    from caramel.evaluation.results.comparison import compare as compared
    from caramel.evaluation.results.published_files import read_runs, run_file
    from caramel.report.terminal import comparison_text

    if out is not None:
        keep_inputs([out / COMPARISON], [run_file(text) for side in (a, b) for text in side.split(",")])
    found = compared(read_runs(a.split(",")), read_runs(b.split(",")), resamples=bootstrap, seed=seed)
    if out is not None:
        write_atomically(out / COMPARISON, lambda path: found.to_csv(path, index=False))
    say(comparison_text(found, a, b))


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
@_bootstrap
@_seed
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
    bootstrap: int,
    seed: int,
) -> None:
    """Write a paper's table from RUNS, folders of `caramel eval`, beside the published rows.

    The best is bold only where it is significantly better than every other measured model.

    \b
    Example:
      caramel table results/vit-b-32 results/tuned --benchmark sugarcrepe --style latex --out table.tex
    """
    from caramel.evaluation.results import run_files
    from caramel.evaluation.results.published_files import ANSWERS, run_file
    from caramel.registry import BENCHMARKS
    from caramel.report.paper_table import paper_table

    if out is not None:
        read = [
            file for run in runs for file in (run_file(str(run)), run / ANSWERS, run / run_files.METRICS[0])
        ]
        keep_inputs([out], read)
    text = paper_table(
        run_files.scored(runs),
        BENCHMARKS[benchmark],
        metrics=metrics,
        subsets=subsets,
        published=published,
        style=style,  # type: ignore[arg-type]
        resamples=bootstrap,
        seed=seed,
        further=run_files.answered(runs),
        seeds=seeds,
        intervals=intervals,
    )
    if out is None:
        say(text)
        return
    write_atomically(out, lambda path: path.write_text(text + "\n", encoding="utf-8"))
    say(f"Wrote {out}.")


def _sources(benchmarks: str, data: Path, images: Path | None) -> list[Source]:
    """Return where each benchmark lies; see ``source_of``.

    Raises:
        ConfigError: a benchmark stands twice, or there is none.
        BackendError: there is none of that name.
    """
    from caramel.evaluation.evaluate import source_of
    from caramel.registry import BENCHMARKS

    names = [name.strip() for name in benchmarks.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"--benchmark {benchmarks!r} must name benchmarks, each once, joined by commas.")
    for name in names:
        BENCHMARKS.place(name)
    return [source_of(name, data.resolve(), images.resolve() if images else None) for name in names]
