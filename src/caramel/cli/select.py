"""Command ``select``: select the best hard negatives of a large training set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from caramel.cli.options import (
    FOLDER,
    FORMAT_HELP,
    CrossValidationOptions,
    add_cross_validation_options,
    add_within_option,
)
from caramel.cli.output import echo
from caramel.io.files import forbid_overwriting_inputs


@click.command("select")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@click.option("--format", "format_name", help=FORMAT_HELP)
@click.option(
    "--scorer",
    "scorers",
    multiple=True,
    required=True,
    help="Blind scorer of a negative's plausibility or fluency, repeatable; `caramel audit --help` lists them.",
)
@click.option(
    "--similarity",
    metavar="MODEL",
    help="Model, as in `caramel eval`, whose text embeddings find negatives that mean the same as their caption; "
    "the published method uses CLIP.",
)
@click.option(
    "--percentile",
    default=64.5,
    show_default=True,
    type=click.FloatRange(0, 100),
    help="Leave out negatives whose score is below this percentile of their subtype, under any scorer.",
)
@click.option(
    "--cell",
    default=0.02,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Side length of a cell of the grid that score differences are balanced on.",
)
@add_within_option
@add_cross_validation_options(seed=4)
def select_best_negatives(
    path: Path,
    out: Path,
    format_name: str | None,
    scorers: tuple[str, ...],
    similarity: str | None,
    percentile: float,
    cell: float,
    within: Any,
    cross_validation: CrossValidationOptions,
) -> None:
    """Select the best hard negatives of a large training set.

    This is the method of TROHN-Img. PATH is any data set that `caramel audit` reads.

    First, two kinds of negatives are left out: those of ten characters or fewer, and those that nearly equal their
    caption, in their words or by --similarity (a cosine of at least 0.999). A remaining negative is kept if its score
    reaches the percentile of its subtype under every scorer, and if it is not a question, ends with a full stop and
    occurs once. Then rows are removed until scores no longer reveal which side of a pair is the negative.

    Sets of more than 100,000 rows are scored in shards on Ray: on this machine's cores, or on the cluster at
    RAY_ADDRESS. Finished shards are stored in --out/scores and are not scored again.

    Writes SugarCrepe-format JSON per subtype, refined.parquet, rejects.parquet and selection.json to --out.

    \b
    Example:
      caramel select trohn_text/ --out trohn_img/ --scorer vera:vera/ --scorer cola:cola/ \\
        --similarity ViT-B-32-quickgelu:openai
    """
    from caramel.audit.files.inputs import read_rows
    from caramel.refine import output, selection

    rows = read_rows(path, name=format_name).rows
    forbid_overwriting_inputs(output.list_output_files(out, rows["subtype"].unique()), [path])
    cosines = None if similarity is None else selection.compute_cosines(rows, similarity)
    positive, negative = selection.score_rows(
        rows, scorers, folds=cross_validation.folds, seed=cross_validation.seed, folder=out / "scores"
    )
    settings = {
        "scorers": scorers,
        "percentile": percentile,
        "cell": cell,
        "within": within,
        "seed": cross_validation.seed,
    }
    reasons = selection.find_reasons(rows, positive, negative, similarity=cosines, **settings)
    result = selection.select_rows(rows, reasons)
    output.write_refined(result.rows, result.rejects, out, rows["subtype"].unique())
    counts = result.rejects["reason"].value_counts().to_dict()
    report = {
        "source": str(path),
        **settings,
        "similarity": similarity,
        "folds": cross_validation.folds,
        "rows": len(rows),
        "kept": len(result.rows),
    }
    output.write_selection({**report, "rejected": counts}, out)
    for reason, count in counts.items():
        echo(f"{count:10,}  {reason}")
    echo(f"{len(result.rows):10,}  kept, of {len(rows):,}. Written to {out}.")
