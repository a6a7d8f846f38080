"""Commands that leave rows of a data set out: refine, select."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from caramel.cli.options import FOLDER, SEED, acceptances, folded, gridded
from caramel.cli.output import echo
from caramel.io.files import forbid_overwriting_inputs

if TYPE_CHECKING:
    import pandas as pd

    from caramel.refine.tradeoff import Candidate


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@click.option("--format", "kind", help="Format, where a folder holds several.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(["length", "adversarial", "aflite", "aflite+adversarial"]),
    help="Method to try, repeatable; all if left out.",
)
@click.option("--scorer", "scorers", multiple=True, help="Blind scorer to refine and choose by, repeatable.")
@click.option(
    "--attacker", "attackers", multiple=True, help="Further blind scorer to judge the result by, repeatable."
)
@click.option("--target", type=click.FloatRange(0.5, 1), help="Highest accuracy of the blind attacker.")
@acceptances
@click.option(
    "--rows",
    "number",
    type=click.IntRange(1),
    help="Rows to keep (or one fewer, where rows are balanced in couples).",
)
@click.option(
    "--cell",
    "cells",
    multiple=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Side of a grid cell, repeatable; 0.02 is the published one.  [default: 1, 0.25, 0.1, 0.02]",
)
@gridded
@folded
@click.option("--seed", default=4, show_default=True, type=SEED, help="Of folds and draws.")
def refine(
    path: Path,
    out: Path,
    kind: str | None,
    methods: tuple[str, ...],
    scorers: tuple[str, ...],
    attackers: tuple[str, ...],
    target: float | None,
    acceptance: Any,
    number: int | None,
    cells: tuple[float, ...],
    within: Any,
    folds: int,
    seed: int,
) -> None:
    """Refine a data set until blind models, that see no image, cannot solve it.

    PATH is anything that `caramel audit` reads. Captions are formatted and rows without use rejected; then
    every method is tried at several strengths, and an attacker made of the --scorer ones says, on half of the rows,
    how well each result can still be solved. Taken is the one with the most rows whose accuracy is shown to be at most --target:
    its whole 95 % interval is. With --rows, each is thinned to so many rows first, and those with fewer are not
    taken. Without --target, the one whose interval ends lowest is taken.

    The result is then judged on the other half, by which nothing was chosen: by the --attacker scorers, which had no
    part in it, and by these and the --scorer ones together, as they learn from the first half. Only these figures say how good the refined set is; where one is not shown to be
    at most --target, that is said, with the rows that it would take, and the exit code is 1. Sets too small for that
    are taken with --acceptance not_refuted where nothing is shown against them.

    Writes SugarCrepe-format JSON per subtype, refined.parquet, rejects.parquet, curve.csv, curve.png and
    refine.json to --out.

    \b
    Example:
      caramel refine sugarcrepe_unrefined/ --out refined/ --target 0.55
      caramel refine data.csv --out refined/ --method adversarial --scorer ngram --scorer probe --cell 0.02
    """
    from caramel.audit.files.inputs import read_rows
    from caramel.refine import output, refining

    settings = refining.build_settings(
        scorers=scorers,
        attackers=attackers,
        target=target,
        acceptance=acceptance,
        rows=number,
        methods=methods,
        cells=cells,
        within=within,
        folds=folds,
        seed=seed,
    )
    given = read_rows(path, name=kind).rows
    forbid_overwriting_inputs(output.list_output_files(out, given["subtype"].unique()), [path])
    tried = refining.build_candidate_set(given, settings, repr(str(path)))
    output.write_curve(tried.curve, out)
    echo(_format_curve(tried.curve, target))
    result = refining.take_best(tried, settings)
    output.write_refined(result.rows, result.rejects, out, tried.rows["subtype"].unique())
    result = replace(result, judged=refining.evaluate_refinement(tried, result.rows, settings))
    output.write_report(refining.build_report(result, settings, len(tried.rows), str(path)), out)
    summary = f"{len(result.rows)} of {len(tried.rows)} rows ({len(result.rejects)} rejected)"
    echo(f"\nTaken: {_format_candidate(result.chosen)}, {summary}.")
    echo("Best blind attacker on the rows by which nothing was chosen, before and after:")
    for label, (before, after) in result.judged.items():
        echo(f"  {label.replace('_', ' '):14}{_format_interval(before):>22}{_format_interval(after):>22}")
    echo(f"Written to {out}.")
    for label, one in result.verdicts.items():
        accepted = one.state == "accepted"
        rule = "" if accepted or not one.is_passing(acceptance) else " Accepted as not refuted."
        echo(f"Target {target:g}, {label.replace('_', ' ')}: {one}.{rule}", err=not accepted)
    if not all(one.is_passing(acceptance) for one in result.verdicts.values()):
        sys.exit(1)


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder to write to."
)
@click.option("--format", "kind", help="Format, where a folder holds several.")
@click.option(
    "--scorer",
    "scorers",
    multiple=True,
    required=True,
    help="Blind scorer by which a negative is well said, repeatable; `caramel audit --help` lists them.",
)
@click.option(
    "--similarity",
    metavar="MODEL",
    help="Model, as of `caramel eval`, whose text cosine says what is as good as its caption; published: CLIP.",
)
@click.option(
    "--percentile",
    default=64.5,
    show_default=True,
    type=click.FloatRange(0, 100),
    help="Of a negative's score within its subtype, under each scorer: those below are left out.",
)
@click.option(
    "--cell",
    default=0.02,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Side of a cell of the grid on which differences of score are balanced.",
)
@gridded
@folded
@click.option("--seed", default=4, show_default=True, type=SEED, help="Of shards, folds and draws.")
def select(
    path: Path,
    out: Path,
    kind: str | None,
    scorers: tuple[str, ...],
    similarity: str | None,
    percentile: float,
    cell: float,
    within: Any,
    folds: int,
    seed: int,
) -> None:
    """Select the best hard negatives of a large training set, as TROHN-Img was.

    PATH is anything that `caramel audit` reads. Negatives of ten signs or fewer go first, and those that are as good as
    their caption: in their words, and by --similarity (a cosine of 0.999). Kept are those whose score reaches the
    percentile of their subtype under every scorer, that are no question, end with a stop and stand once; then rows
    are thinned until neither side of a pair is told by its score.

    Sets of more than 100,000 rows are scored in shards on Ray: on this machine's cores, or on the cluster at RAY_ADDRESS.
    Finished shards lie in --out/scores and are not scored again.

    Writes SugarCrepe-format JSON per subtype, refined.parquet, rejects.parquet and selection.json to --out.

    \b
    Example:
      caramel select trohn_text/ --out trohn_img/ --scorer vera:vera/ --scorer cola:cola/ \\
        --similarity ViT-B-32-quickgelu:openai
    """
    from caramel.audit.files.inputs import read_rows
    from caramel.refine import output, selection

    given = read_rows(path, name=kind).rows
    forbid_overwriting_inputs(output.list_output_files(out, given["subtype"].unique()), [path])
    alike = None if similarity is None else selection.compute_cosines(given, similarity)
    positive, negative = selection.score_rows(given, scorers, folds=folds, seed=seed, folder=out / "scores")
    settings = {"scorers": scorers, "percentile": percentile, "cell": cell, "within": within, "seed": seed}
    result = selection.select_negatives(given, positive, negative, similarity=alike, **settings)
    output.write_refined(result.rows, result.rejects, out, given["subtype"].unique())
    reasons = result.rejects["reason"].value_counts().to_dict()
    report = {
        "source": str(path),
        **settings,
        "similarity": similarity,
        "folds": folds,
        "rows": len(given),
        "kept": len(result.rows),
    }
    output.write_selection({**report, "rejected": reasons}, out)
    for reason, count in reasons.items():
        echo(f"{count:10,}  {reason}")
    echo(f"{len(result.rows):10,}  kept, of {len(given):,}. Written to {out}.")


def _format_candidate(candidate: Candidate) -> str:
    strength = "" if math.isnan(candidate.strength) else f" at {candidate.strength:g}"
    return f"{candidate.method}{strength}"


def _format_interval(figures: Sequence[float]) -> str:
    return f"{100 * figures[0]:.1f} % ({100 * figures[1]:.1f}–{100 * figures[2]:.1f})"


def _format_curve(curve: pd.DataFrame, target: float | None) -> str:
    """Return the curve for the terminal, accuracy in per cent, and what its intervals say about a target."""
    from caramel.refine.tradeoff import judge_curve

    head = f"{'method':20}{'strength':>10}{'rows':>10}{'share':>8}{'accuracy':>10}{'interval':>14}"
    lines = [head if target is None else f"{head}  {'target':>10}{'rows needed':>13}"]
    verdicts = [None] * len(curve) if target is None else judge_curve(curve, target)
    for (_, row), one in zip(curve.iterrows(), verdicts, strict=True):
        strength = "" if math.isnan(row["strength"]) else f"{row['strength']:g}"
        accuracy, low, high = (100 * row[c] for c in ("accuracy", "ci_low", "ci_high"))
        figures = f"{accuracy:10.1f}{f'{low:.1f}–{high:.1f}':>14}" if row["rows"] else f"{'–':>10}"
        if one and row["rows"]:
            figures += f"  {one.state:>10}{'–' if one.needed is None else f'{one.needed:,}':>13}"
        lines.append(f"{row['method']:20}{strength:>10}{row['rows']:>10}{100 * row['share']:>7.1f}%{figures}")
    return "\n".join(lines)
