"""Measure refinement on real captions: `python bench/refine_sugarcrepe.py FOLDER`.

FOLDER holds SugarCrepe before its refinement (17,478 pairs). It compares

- `published`: the grid over two scorers, with cells of 0.02, within each subtype. The published scorers are
  two large models; two small ones replace them here.
- `six`: AFLite, then the grid over the signs of six scorers, at several levels, and one of these results
  thinned to the number of rows of `published`.
- `ten`: the same with ten scorers, all those of the best blind attacker here.

The best blind attacker judges each result with other folds: with four scorers that had no part in the first
two, and with all ten, as the mean over two assignments of folds. Prints one JSON object. On two busy cores it
takes about twenty minutes; `--part` runs a part.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pandas as pd

from caramel.audit.files.inputs import read_rows
from caramel.blind.text.attack import BEST, run_caption_attack
from caramel.refine import tradeoff
from caramel.refine.rows import repair_rows
from caramel.runtime.environment import be_quiet
from caramel.utils.acceptance import compute_verdict

PUBLISHED = ("ngram", "probe")
OURS = ("ngram", "probe", "char_probe", "edit_probe", "length", "rare_words")
NEW = ("kneser_ney", "char_ngram", "words", "articles")
FOLDS, SEED, FRESH_SEEDS, TARGET = 5, 4, (97, 98), 0.55
SETTINGS: dict[str, Any] = {"folds": FOLDS, "within": "subtype", "seed": SEED}


def attack_rows(rows: pd.DataFrame) -> dict[str, Any]:
    """Return accuracy, ci_low and ci_high of the attackers on the rows, and of all scorers by type."""
    runs = [run_caption_attack(rows, (*OURS, *NEW), folds=FOLDS, seed=s).figures[BEST] for s in FRESH_SEEDS]
    new = run_caption_attack(rows, NEW, folds=FOLDS, seed=FRESH_SEEDS[0]).figures[BEST]["overall"]
    names = ("micro", "ci_low", "ci_high")
    return {
        "rows": len(rows),
        "new_scorers": [round(new[name], 3) for name in names],
        "all_scorers": [round(sum(r["overall"][name] for r in runs) / len(runs), 3) for name in names],
        "by_type": {
            type_name: [
                of_type["n"],
                round(sum(r["by_type"][type_name]["accuracy"] for r in runs) / len(runs), 3),
            ]
            for type_name, of_type in runs[0]["by_type"].items()
        },
    }


def judge_candidate(candidate: tradeoff.Candidate, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the results of fresh attackers on the rows that a candidate keeps."""
    click.echo(f"{candidate.method} {candidate.strength} {candidate.keep_mask.sum()}", err=True)
    strength = None if math.isnan(candidate.strength) else candidate.strength
    result = attack_rows(rows[candidate.keep_mask].reset_index(drop=True))
    return {"method": candidate.method, "strength": strength} | result


def refine_as_published(rows: pd.DataFrame) -> tradeoff.Candidate:
    """Return the published method's refinement."""
    methods = [tradeoff.ADVERSARIAL]
    return tradeoff.build_candidates(rows, methods=methods, scorers=PUBLISHED, cells=(0.02,), **SETTINGS)[1]


def measure_six_scorers(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the curve over six scorers, and the result with the published method's number of rows."""
    methods = [tradeoff.ADVERSARIAL, tradeoff.AFLITE_ADVERSARIAL]
    levels = (0.7, 0.6, 0.5, 0.45)
    candidates = tradeoff.build_candidates(
        rows, methods=methods, scorers=OURS, cells=(1.0,), levels=levels, **SETTINGS
    )[1:]
    number = int(refine_as_published(rows).keep_mask.sum())
    equal = [
        tradeoff.reduce_candidate(c, rows, number=number, within="subtype", seed=SEED) for c in candidates
    ]
    # Selected with the attacker that refinement knows, before any is judged.
    known = tradeoff.compute_tradeoff_curve(
        rows, equal, tradeoff.build_attack(OURS, folds=FOLDS, seed=SEED + 2)
    )
    best = equal[tradeoff.choose_candidate(known, target=None, number=number, acceptance="equivalence")]
    return {
        "at_the_rows_of_published": judge_candidate(best, rows),
        "curve": [judge_candidate(c, rows) for c in candidates],
    }


def measure_ten_scorers(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the curve over all ten scorers, and the largest result that is shown to be within the target."""
    methods = [tradeoff.AFLITE_ADVERSARIAL]
    scorers = (*OURS, *NEW)
    candidates = tradeoff.build_candidates(
        rows, methods=methods, scorers=scorers, levels=(0.7, 0.6, 0.5), **SETTINGS
    )
    curve = [judge_candidate(c, rows) for c in candidates[1:]]
    low = [
        c
        for c in curve
        if compute_verdict(*c["all_scorers"], rows=c["rows"], limit=TARGET).state == "accepted"
    ]
    return {"curve": curve, "most_rows_within_target": max(low, key=lambda c: c["rows"], default=None)}


PARTS: dict[str, Callable[[pd.DataFrame], dict[str, Any]]] = {
    "before": attack_rows,
    "published": lambda rows: judge_candidate(refine_as_published(rows), rows),
    "six": measure_six_scorers,
    "ten": measure_ten_scorers,
}


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="Repeatable. Default: all."
)
def main(folder: Path, parts: tuple[str, ...]) -> None:
    """Print the results as JSON."""
    be_quiet()
    start = time.perf_counter()
    rows, rejects = repair_rows(read_rows(folder).rows)
    report: dict[str, Any] = {"rejected_by_repair": rejects["reason"].value_counts().to_dict()}
    report |= {part: PARTS[part](rows) for part in parts or PARTS}
    report["seconds"] = round(time.perf_counter() - start)
    click.echo(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
