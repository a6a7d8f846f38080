"""Command that refines a data set: refine."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from caramel.cli.options import SEED
from caramel.cli.saying import say
from caramel.errors import ConfigError, DataError
from caramel.storage.files import keep_inputs

if TYPE_CHECKING:
    import pandas as pd

    from caramel.refine.tradeoff import Candidate

# What refinement is fitted on and chosen by, and the further scorers that judge the result.
FITTED = ("ngram", "probe", "char_probe", "edit_probe", "length", "rare_words")
FURTHER = ("kneser_ney", "char_ngram", "shrunk_probe", "final_punctuation", "casing", "digits", "articles")

Figures = tuple[float, float, float]  # accuracy, ci_low, ci_high


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder to write to."
)
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
@click.option(
    "--within",
    default="subtype",
    show_default=True,
    type=click.Choice(["subtype", "all"]),
    help="A grid per subtype, or one over all rows as published.",
)
@click.option(
    "--folds", default=5, show_default=True, type=click.IntRange(2), help="Of the cross-validation."
)
@click.option("--seed", default=4, show_default=True, type=SEED, help="Of folds and draws.")
def refine(
    path: Path,
    out: Path,
    kind: str | None,
    methods: tuple[str, ...],
    scorers: tuple[str, ...],
    attackers: tuple[str, ...],
    target: float | None,
    number: int | None,
    cells: tuple[float, ...],
    within: Any,
    folds: int,
    seed: int,
) -> None:
    """Refine a data set until blind models, that see no image, cannot solve it.

    PATH is anything that `caramel audit` reads. Captions are formatted and rows without use rejected; then
    every method is tried at several strengths, and an attacker made of the --scorer ones says how well each
    result can still be solved. Taken is the one with the most rows whose accuracy is at most --target; with
    --rows, each is thinned to so many rows first, and those with fewer are not taken. Without --target, the one
    whose interval ends lowest is taken.

    The result is then judged with other folds: by the --attacker scorers, which had no part in it, and by these
    and the --scorer ones together. Only these figures say how good the refined set is; where one lies wholly
    above --target, that is said and the exit code is 1.

    Writes SugarCrepe-format JSON per subtype, refined.parquet, rejects.parquet, curve.csv, curve.png and
    refine.json to --out.

    \b
    Example:
      caramel refine sugarcrepe_unrefined/ --out refined/ --target 0.52
      caramel refine data.csv --out refined/ --method adversarial --scorer ngram --scorer probe --cell 0.02
    """
    from caramel.audit.inputs_of_audit import read_rows
    from caramel.refine import refined_files, tradeoff
    from caramel.refine.rows import rejected, repair

    fitted = scorers or FITTED
    further = attackers or tuple(s for s in FURTHER if s not in fitted)
    if not further or set(fitted) & set(further):
        raise ConfigError(
            f"--attacker {list(further)!r} and --scorer {list(fitted)!r}: the result must be judged by one scorer "
            f"at least that it was not refined with. Name others."
        )
    given = read_rows(path, name=kind).rows
    keep_inputs(refined_files.files(out, given["subtype"].unique()), [path])
    rows, rejects = repair(given)
    if rows.empty:
        raise DataError(f"No row of {str(path)!r} is of use: {rejects['reason'].value_counts().to_dict()}.")
    found = tradeoff.candidates(
        rows,
        methods=methods or tradeoff.METHODS,
        scorers=fitted,
        folds=folds,
        within=within,
        seed=seed,
        cells=cells or tradeoff.CELLS,
    )
    if number is not None:
        found = [tradeoff.thin(c, rows, number=number, within=within, seed=seed) for c in found]
    choosing = tradeoff.stacked(fitted, folds=folds, seed=seed + 2)
    curve = tradeoff.tradeoff(rows, found, choosing)
    refined_files.write_curve(curve, out)
    say(_table(curve))
    chosen = found[tradeoff.choose(curve, target=target, number=number)]
    kept = rows[chosen.kept].reset_index(drop=True)
    rejects = _together(rejects, rejected(rows, chosen.reasons))
    refined_files.write_refined(kept, rejects, out, rows["subtype"].unique())
    new, together = (
        tradeoff.stacked(names, folds=folds, seed=seed + 3) for names in (further, (*fitted, *further))
    )
    judged = {"new_scorers": (new(rows), new(kept)), "all_scorers": (together(rows), together(kept))}
    settings = {
        "source": str(path),
        "scorers": fitted,
        "attackers": further,
        "target": target,
        "rows": number,
        "methods": methods or tradeoff.METHODS,
        "cells": cells or tradeoff.CELLS,
    }
    settings |= {"within": within, "folds": folds, "seed": seed}
    refined_files.write_report(_report(settings, chosen, len(rows), len(kept), judged), out)
    say(f"\nTaken: {_name(chosen)}, {len(kept)} of {len(rows)} rows ({len(rejects)} rejected).")
    say("Best blind attacker with other folds, before and after:")
    for label, (before, after) in judged.items():
        say(f"  {label.replace('_', ' '):14}{_percent(before):>22}{_percent(after):>22}")
    say(f"Written to {out}.")
    missed = {
        label: after for label, (_, after) in judged.items() if target is not None and after[1] > target
    }
    for label, after in missed.items():
        say(f"Target missed: {label.replace('_', ' ')} are right on {_percent(after)}.", err=True)
    if missed:
        sys.exit(1)


def _together(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([first, second], ignore_index=True)


def _name(candidate: Candidate) -> str:
    strength = "" if math.isnan(candidate.strength) else f" at {candidate.strength:g}"
    return f"{candidate.method}{strength}"


def _percent(figures: Figures) -> str:
    return f"{100 * figures[0]:.1f} % ({100 * figures[1]:.1f}–{100 * figures[2]:.1f})"


def _report(
    settings: dict[str, Any],
    chosen: Candidate,
    rows: int,
    kept: int,
    judged: dict[str, tuple[Figures, Figures]],
) -> dict[str, Any]:
    """Return what ``refine.json`` holds."""
    names = ("accuracy", "ci_low", "ci_high")
    strength = None if math.isnan(chosen.strength) else chosen.strength
    return {
        "settings": settings,
        "method": chosen.method,
        "strength": strength,
        "rows_repaired": rows,
        "rows_kept": kept,
        "best_blind_attacker": {
            label: {
                "before": dict(zip(names, before, strict=True)),
                "after": dict(zip(names, after, strict=True)),
            }
            for label, (before, after) in judged.items()
        },
    }


def _table(curve: pd.DataFrame) -> str:
    """Return the curve for the terminal, accuracy in per cent."""
    lines = [f"{'method':20}{'strength':>10}{'rows':>10}{'share':>8}{'accuracy':>10}{'interval':>14}"]
    for _, row in curve.iterrows():
        strength = "" if math.isnan(row["strength"]) else f"{row['strength']:g}"
        accuracy, low, high = (100 * row[c] for c in ("accuracy", "ci_low", "ci_high"))
        figures = f"{accuracy:10.1f}{f'{low:.1f}–{high:.1f}':>14}" if row["rows"] else f"{'–':>10}"
        lines.append(f"{row['method']:20}{strength:>10}{row['rows']:>10}{100 * row['share']:>7.1f}%{figures}")
    return "\n".join(lines)
