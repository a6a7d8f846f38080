"""Attack SugarCrepe, SugarCrepe++ and the unrefined pool blindly: `python bench/audit_tasks.py FOLDER`.

FOLDER holds `sugarcrepe`, `sugarcrepe_pp` and `sugarcrepe_unrefined`. Each set is attacked on each of its
tasks, with two kinds of training data:

- the set itself, by cross-validation;
- each of the other sets. For SugarCrepe, the pool without its own rows is what its authors' refinement
  rejected.

`refined` is the pool after the published grid over two small scorers (`refine_sugarcrepe.py`); the rows that
the grid rejected serve as its training data. `--learn-from` adds data sets to train on. A set of other images
and authors shows the result of an attacker that never saw similar data.

Prints a line per task and source: all attackers together with the 95 % interval, their excess over chance,
the strongest attacker with its seconds, and all together by type. With five quick scorers it takes about ten
minutes on one core of a busy machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import pandas as pd
from refine_sugarcrepe import refine_as_published

from caramel.audit.exploitability import compute_exploitability, format_source
from caramel.audit.files.inputs import read_rows
from caramel.blind.text.attack import BEST, Attack, run_attacks
from caramel.blind.text.text_tasks import P1_N, PARAPHRASED, Source
from caramel.refine.rows import repair_rows
from caramel.runtime.environment import be_quiet

SETS = ("sugarcrepe", "sugarcrepe_pp", "sugarcrepe_unrefined")
REFINED = "refined"
QUICK = ("length", "words", "final_punctuation", "casing", "articles", "ngram", "probe", "edit_probe")
FOLDS, SEED = 5, 97


@dataclass(frozen=True)
class AttackSummary:
    """Results of all attackers together, and of the strongest, on one task; shares in [0, 1]."""

    data_set: str
    rows: int
    task: str
    source: str
    rows_learned_from: int
    chance: float
    accuracy: float
    ci_low: float
    ci_high: float
    excess: float
    strongest: str
    strongest_accuracy: float
    strongest_seconds: float
    by_type: dict[str, float]

    def __str__(self) -> str:
        shares = [f"{100 * share:.1f}" for share in (self.accuracy, self.ci_low, self.ci_high)]
        first = f"{self.strongest} {100 * self.strongest_accuracy:.1f}, {self.strongest_seconds:.0f} s"
        types = ", ".join(f"{type_name} {100 * share:.1f}" for type_name, share in self.by_type.items())
        return (
            f"{self.data_set:<21}{self.task:<9}{self.source:<21}{100 * self.chance:>5.1f} {shares[0]:>6} "
            f"[{shares[1]}, {shares[2]}] {100 * self.excess:>6.1f}  {first}; {types}"
        )


def summarise_attack(name: str, attack: Attack) -> AttackSummary:
    """Return the summary of an attack."""
    figures, first = attack.figures[BEST], attack.strongest
    overall = figures["overall"]
    return AttackSummary(
        name,
        len(attack.rows),
        attack.task.name,
        format_source(attack.source),
        attack.taught,
        attack.task.chance,
        overall["micro"],
        overall["ci_low"],
        overall["ci_high"],
        compute_exploitability(attack).excess,
        first,
        attack.figures[first]["overall"]["micro"],
        attack.seconds[first],
        {type_name: figure["accuracy"] for type_name, figure in figures["by_type"].items()},
    )


def iter_attack_summaries(
    name: str, rows: pd.DataFrame, sources: list[Source], scorers: tuple[str, ...], seed: int
) -> Iterator[AttackSummary]:
    """Yield the summaries of a data set, for each of its tasks and each source."""
    for tasks in ((P1_N,), PARAPHRASED)[: 2 if rows["caption2"].notna().any() else 1]:
        for source in (None, *sources):
            for attack in run_attacks(rows, scorers, tasks, folds=FOLDS, seed=seed, source=source):
                yield summarise_attack(name, attack)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--set", "names", multiple=True, type=click.Choice([*SETS, REFINED]), help="Repeatable. Default: all."
)
@click.option("--scorer", "scorers", multiple=True, default=QUICK, show_default=True, help="Blind scorers.")
@click.option(
    "--learn-from", "others", multiple=True, type=click.Path(exists=True, path_type=Path), help="Repeatable."
)
@click.option(
    "--rows", type=click.IntRange(100), help="Maximum rows of each set, drawn at random. Default: all."
)
@click.option(
    "--seed",
    default=SEED,
    show_default=True,
    type=click.IntRange(0),
    help="Random seed for folds and sampling.",
)
@click.option("--out", type=click.Path(path_type=Path), help="JSON file for the results.")
def main(
    folder: Path,
    names: tuple[str, ...],
    scorers: tuple[str, ...],
    others: tuple[Path, ...],
    rows: int | None,
    seed: int,
    out: Path | None,
) -> None:
    """Attack the public data sets on all of their tasks."""
    be_quiet()
    read = {name: read_rows(folder / name).rows for name in SETS}
    given = [Source(path.resolve().name, read_rows(path).rows) for path in others]
    lines = []
    for name in names or (*SETS, REFINED):
        # SugarCrepe is a part of the pool, so it adds no training data.
        excluded_sets = (name, "sugarcrepe") if name == "sugarcrepe_unrefined" else (name,)
        sources = [*(Source(other, read[other]) for other in SETS if other not in excluded_sets), *given]
        data = read.get(name)
        if data is None:
            pool = repair_rows(read["sugarcrepe_unrefined"])[0]
            data = pool[refine_as_published(pool).keep_mask].reset_index(drop=True)
            sources = [Source("rejected rows", pool), *given]
        if rows is not None and len(data) > rows:
            data = data.sample(rows, random_state=seed)
        for summary in iter_attack_summaries(name, data, sources, scorers, seed):
            click.echo(str(summary))
            lines.append(summary)
    if out:
        out.write_text(json.dumps([asdict(one) for one in lines], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
