"""Command ``reproduce``: measure published tables again."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Literal

import click

from caramel.cli.compute_options import (
    ComputeOptions,
    add_compute_options,
    add_missing_option,
    check_model_addresses,
    score_models,
)
from caramel.cli.options import FOLDER, add_bootstrap_options
from caramel.cli.output import echo
from caramel.errors import ConfigError
from caramel.utils.resampling import Bootstrap


@click.command("reproduce")
@click.argument("tables", nargs=-1, required=True, metavar="PAPER:TABLE...")
@click.option("--data", type=FOLDER, help="Folder that holds one folder per benchmark.")
@click.option(
    "--images",
    type=FOLDER,
    help="Folder of the images, or of one folder of images per benchmark.  [default: the benchmark's own folder]",
)
@click.option(
    "--checkpoints",
    type=FOLDER,
    default="checkpoints",
    show_default=True,
    help="Folder of checkpoints that are published as files.",
)
@click.option(
    "--model",
    "overrides",
    multiple=True,
    metavar="NAME=SPEC",
    help="Spec to use for a row's model, repeatable; for weights that are elsewhere.",
)
@click.option(
    "--released",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the result files that the authors released.",
)
@click.option(
    "--out", type=FOLDER, default="results/reproduce", show_default=True, help="Folder to write to."
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="Score only the first instances of each benchmark; the results go to --out/limit-N.",
)
@add_missing_option
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only list what is missing and where it is published; exit with code 1 if anything is.",
)
@add_compute_options
@add_bootstrap_options
def reproduce_tables(
    tables: tuple[str, ...],
    data: Path | None,
    images: Path | None,
    checkpoints: Path,
    overrides: tuple[str, ...],
    released: Path | None,
    out: Path,
    limit: int | None,
    missing: Literal["fail", "skip"],
    dry_run: bool,
    compute: ComputeOptions,
    bootstrap: Bootstrap,
) -> None:
    """Measure published tables again, beside their figures.

    Scores the models of the tables' rows as `caramel eval` does, each with an MLflow run, and writes PAPER.md and
    PAPER.csv to --out. A model or benchmark that is missing or fails is reported, and the others are scored; the exit
    code is 1 if nothing was measured. The same command continues an interrupted one. --released adds what the authors'
    own result files give.

    \b
    Tables: sugarcrepe:T8, sugarcrepe_pp:T2 to T8 and T12 to T20, crepe:T9 to T16, bivlc:T2 to T5.

    \b
    Example:
      caramel reproduce sugarcrepe_pp:T2 sugarcrepe_pp:T12 --data benchmarks --images coco/val2017 --dry-run
      caramel reproduce bivlc:T3 bivlc:T5 --released BiVLC
    """
    from caramel.report.reproduction.roster import find_table, list_tables, resolve_models
    from caramel.report.reproduction.runs import (
        Inputs,
        compute_released,
        list_missing,
        list_trials,
        score_trials,
    )
    from caramel.report.reproduction.tables import select_tables, write_paper

    if data is None and released is None and not dry_run:
        raise ConfigError(
            "Give --data, a folder of benchmarks, or --released, a folder of the authors' files."
        )
    check_model_addresses(overrides)
    requested = [find_table(name) for name in dict.fromkeys(tables)]
    models = resolve_models(checkpoints, overrides)
    inputs = Inputs(_resolve(data), _resolve(images), models, _resolve(released), missing)
    if dry_run:
        entries = list_missing(requested, inputs)
        echo("\n".join(entries) if entries else "Nothing is missing.")
        sys.exit(1 if entries else 0)
    if limit is not None:
        out /= f"limit-{limit}"
    n_read = compute_released(requested, inputs, out, bootstrap, echo)
    trials = list_trials(requested, models) if data is not None else []
    scorer = partial(score_models, compute=compute, bootstrap=bootstrap, limit=limit)
    problems = score_trials(trials, inputs, out, scorer, echo)
    for key in dict.fromkeys(table.key for table in requested):
        of_paper = select_tables(list_tables(key), [table.name for table in requested], models, out)
        echo(f"Wrote {' and '.join(map(str, write_paper(of_paper, models, out, problems)))}.")
    if not n_read and len(problems) == len(trials):
        echo("Nothing was measured.")
        sys.exit(1)


def _resolve(folder: Path | None) -> Path | None:
    return folder and Path(os.path.realpath(folder))  # also resolves a circle of links
