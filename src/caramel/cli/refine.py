"""Command ``refine``: remove rows until blind models cannot solve a data set."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from caramel.cli.options import (
    FOLDER,
    FORMAT_HELP,
    CrossValidationOptions,
    add_acceptance_option,
    add_cross_validation_options,
    add_within_option,
    collect_options,
)
from caramel.cli.output import echo
from caramel.io.files import forbid_overwriting_inputs

if TYPE_CHECKING:
    import pandas as pd

    from caramel.refine.tradeoff import Candidate


@dataclass(frozen=True)
class GoalOptions:
    """Requirements on the refined set."""

    target: float | None
    acceptance: Any
    rows: int | None


@click.command("refine")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=FOLDER, help="Folder to write to.")
@click.option("--format", "format_name", help=FORMAT_HELP)
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(["length", "adversarial", "aflite", "aflite+adversarial"]),
    help="Method to try, repeatable.  [default: all methods]",
)
@click.option(
    "--scorer",
    "scorers",
    multiple=True,
    help="Blind scorer that rows are refined and chosen by, repeatable.",
)
@click.option(
    "--attacker",
    "attackers",
    multiple=True,
    help="Additional blind scorer that only evaluates the result, repeatable.",
)
@click.option(
    "--target", type=click.FloatRange(0.5, 1), help="Highest accepted accuracy of the blind attacker."
)
@add_acceptance_option
@click.option(
    "--rows",
    type=click.IntRange(1),
    help="Number of rows to keep (or one fewer, if rows are balanced in pairs).",
)
@click.option(
    "--cell",
    "cells",
    multiple=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Side length of a grid cell, repeatable; 0.02 is the published value.  [default: 1, 0.25, 0.1, 0.02]",
)
@add_within_option
@add_cross_validation_options(seed=4)
@collect_options(GoalOptions, "goal")
def refine_path(
    path: Path,
    out: Path,
    format_name: str | None,
    methods: tuple[str, ...],
    scorers: tuple[str, ...],
    attackers: tuple[str, ...],
    goal: GoalOptions,
    cells: tuple[float, ...],
    within: Any,
    cross_validation: CrossValidationOptions,
) -> None:
    """Remove rows until blind models cannot solve a data set.

    Blind models see no image. PATH is any data set that `caramel audit` reads. First, captions are formatted and
    unusable rows rejected. Then every method is tried at several strengths. An attacker that combines the --scorer
    scorers measures, on half of the rows, how well each result can still be solved. The command chooses the result
    with the most rows whose accuracy is shown to be at most --target: its whole 95 % interval is at or below it. With
    --rows, each result is first reduced to that many rows, and results with fewer rows are not chosen. Without
    --target, the command chooses the result whose interval ends lowest.

    The result is then evaluated on the other half, on which no choice depends: by the --attacker scorers, which had
    no part in the choice, and by the --attacker and --scorer scorers together. They are trained on the first half.
    Only these figures say how good the refined set is. If one of them is not shown to be at most --target, the command
    says how many rows would be needed, and exits with code 1. With --acceptance not_refuted, it accepts a set that is
    too small to decide, unless its accuracy is shown to be above --target.

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
        target=goal.target,
        acceptance=goal.acceptance,
        rows=goal.rows,
        methods=methods,
        cells=cells,
        within=within,
        folds=cross_validation.folds,
        seed=cross_validation.seed,
    )
    source_rows = read_rows(path, name=format_name).rows
    forbid_overwriting_inputs(output.list_output_files(out, source_rows["subtype"].unique()), [path])
    tried = refining.build_candidate_set(source_rows, settings, repr(str(path)))
    output.write_curve(tried.curve, out)
    echo(_format_curve(tried.curve, goal.target))
    result = refining.take_best(tried, settings)
    output.write_refined(result.rows, result.rejects, out, tried.rows["subtype"].unique())
    result = replace(result, judged=refining.evaluate_refinement(tried, result.rows, settings))
    output.write_report(refining.build_report(result, settings, len(tried.rows), str(path)), out)
    summary = f"{len(result.rows)} of {len(tried.rows)} rows ({len(result.rejects)} rejected)"
    echo(f"\nChosen: {_format_candidate(result.chosen)}, {summary}.")
    echo("Best blind attacker on the rows that had no part in the choice, before and after:")
    for label, (before, after) in result.judged.items():
        echo(f"  {label.replace('_', ' '):14}{_format_interval(before):>22}{_format_interval(after):>22}")
    echo(f"Written to {out}.")
    for label, one in result.verdicts.items():
        accepted = one.state == "accepted"
        rule = "" if accepted or not one.is_passing(goal.acceptance) else " Accepted as not refuted."
        echo(f"Target {goal.target:g}, {label.replace('_', ' ')}: {one}.{rule}", err=not accepted)
    if not all(one.is_passing(goal.acceptance) for one in result.verdicts.values()):
        sys.exit(1)


def _format_candidate(candidate: Candidate) -> str:
    strength = "" if math.isnan(candidate.strength) else f" at {candidate.strength:g}"
    return f"{candidate.method}{strength}"


def _format_interval(figures: Sequence[float]) -> str:
    return f"{100 * figures[0]:.1f} % ({100 * figures[1]:.1f}–{100 * figures[2]:.1f})"


def _format_curve(curve: pd.DataFrame, target: float | None) -> str:
    """Return the curve for the terminal, with accuracies in per cent and the verdicts on a target."""
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
