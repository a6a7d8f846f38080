"""Command ``crepe top``: list the captions that models rank first, as table 17 does."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.compute_options import ComputeOptions, add_compute_options
from caramel.cli.crepe.inputs import EXISTING
from caramel.cli.output import echo


@click.command("top")
@click.option(
    "--model", "models", multiple=True, required=True, help="Model, as `caramel eval --model`; repeatable."
)
@click.option(
    "--benchmark",
    default="crepe_systematicity",
    show_default=True,
    help="Benchmark that ranks captions for an image.",
)
@click.option("--data", required=True, type=EXISTING, help="Folder that holds one folder per benchmark.")
@click.option("--images", type=EXISTING, help="Folder of the images.  [default: the benchmark's own folder]")
@click.option("--top", default=3, show_default=True, type=click.IntRange(1), help="Captions of each image.")
@click.option("--limit", type=click.IntRange(1), help="Score only the first instances.")
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="CSV file to write."
)
@add_compute_options
def list_top(
    models: tuple[str, ...],
    benchmark: str,
    data: Path,
    images: Path | None,
    top: int,
    limit: int | None,
    out: Path,
    compute: ComputeOptions,
) -> None:
    """List the captions that models rank first.

    Writes a CSV file with a row for each model, instance and rank: the image, its caption, the caption at this rank,
    its score, and whether it is the true one.

    \b
    Example:
      caramel crepe top --model ViT-B-32-quickgelu:openai --data data/ --images vg/ --limit 500 --out top.csv
    """
    import pandas as pd

    from caramel.evaluation.score_model import load_checked_benchmark
    from caramel.evaluation.scores.encoding import RunConfig
    from caramel.evaluation.scores.top_candidates import list_top_captions
    from caramel.interfaces.settings import Compute
    from caramel.io.files import forbid_overwriting_inputs, write_atomically

    loaded = load_checked_benchmark(benchmark, data, images, limit, {})
    forbid_overwriting_inputs([out], [Path(loaded.source.data)])
    tables = []
    for model in models:
        run = RunConfig(
            model,
            Compute(compute.device, compute.precision),
            compute.batch_size,
            str(compute.store),
            "inline",
        )
        tables.append(list_top_captions(loaded.task, loaded.keys, run, top=top).assign(model=model))
    rows = pd.concat(tables)
    write_atomically(out, lambda path: rows.to_csv(path, index=False))
    for name, part in rows.groupby("model", sort=False):
        first = part[part["rank"] == 1]
        echo(f"{name}: the true caption is first for {first['is_true'].sum():,} of {len(first):,} queries.")
    echo(f"Written to {out}.")
