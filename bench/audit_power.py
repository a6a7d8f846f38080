"""Measure the power and false alarms of the audit on planted shortcuts: `python bench/audit_power.py`.

A clean data set has two texts per image from the same distribution, and a coin decides which one is the
negative. They differ in a word, in length, in the final stop and in the order of two adjectives. With a
shortcut of strength s, the coin is replaced on a share s of the rows: the text with a certain property is the
negative. The texts are unchanged, so only the labels can reveal the shortcut.

An ideal attacker serves as a reference. It knows the property and need not learn it. It is right on (1 + s) /
2 of the rows, and no attacker can do better. By the normal approximation, the 95 % interval of its accuracy
is above one half with probability Φ((s √n − z) / √(1 − s²)), z = 1.96. If that is small, the rows hold too
little information for any attacker. The audit's intervals are wider (`stats.variance_factor`), since it has
to learn. The value in brackets is the ideal attacker's share with intervals of that width.

Printed for each kind and strength:

- the share of seeds in which the attacker raises an alarm, by its interval (lower end above one half) and by
  its test (p < 0.05);
- its mean accuracy;
- the spread of its accuracy over seeds as a multiple of the spread of independent guesses.

Goals: a clean set raises no alarm in 95 % of seeds, and a shortcut that the ideal attacker finds in 99 % of
seeds is found in 80 %. A goal is missed if the share departs from it by more than two standard errors of the
simulation; then the exit code is 1. It takes about three minutes on two cores.

With `--gates` it prints instead how the acceptance rule (`caramel.utils.acceptance`) treats independent rows:
the highest accuracy at which a set is accepted, the lowest at which it is refused, and how often a set whose
attacker is at chance is accepted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist

import click
import numpy as np
import pandas as pd

from caramel.blind.text.attack import BEST, run_caption_attack
from caramel.utils.acceptance import compute_verdict, required_sample_size
from caramel.utils.stats import Z, variance_factor, wilson_interval

SHORTCUTS = ("word", "length", "punctuation", "word order")
STRENGTHS = (0.02, 0.05, 0.1, 0.2, 0.4)
FOLDS = 5

QUICK = ("length", "final_punctuation", "casing", "ngram", "probe", "shrunk_probe")
# fmt: off
OBJECTS = (
    "dog", "cat", "bus", "car", "bench", "chair", "horse", "boat", "bird", "tree", "table", "bottle", "lamp",
    "clock", "bowl", "cup", "kite", "train", "truck", "sheep", "cow", "bear", "zebra", "vase", "book", "sofa",
    "stove", "sink", "plate", "fork", "spoon", "apple", "orange", "pizza", "cake", "donut", "hat", "bag", "tie",
)
# fmt: on
SIZES = ("small", "big", "tiny", "huge", "tall", "short")
COLOURS = ("red", "green", "blue", "black", "white", "brown", "yellow", "grey")
MORE = ("wooden", "shiny", "dusty", "broken", "painted", "old", "new", "clean", "dirty", "plain")
RELATIONS = ("next to", "behind", "under", "above", "near", "in front of", "beside", "below")


@dataclass(frozen=True)
class Outcome:
    """Results of the attackers on one kind of shortcut at one strength."""

    kind: str
    strength: float
    seeds: int
    by_interval: float  # share of seeds in which the interval is above one half
    by_test: float  # share of seeds with p < 0.05
    accuracy: float  # mean over seeds
    spread: float  # standard deviation over seeds, as a multiple of the one of independent guesses
    ideal_accuracy: float
    ideal_by_interval: float
    ideal_widened: float  # with an interval as wide as the audit's

    @property
    def missed(self) -> bool:
        """Return whether a goal is missed by more than the simulation's own error."""
        if self.strength == 0:
            return 1 - max(self.by_interval, self.by_test) + self._compute_slack(0.95) < 0.95
        return self.ideal_by_interval >= 0.99 and self.by_interval + self._compute_slack(0.8) < 0.8

    def _compute_slack(self, share: float) -> float:
        return 2 * float(np.sqrt(share * (1 - share) / self.seeds))

    def __str__(self) -> str:
        numbers = "".join(
            f"{100 * share:>12.1f}" for share in (self.by_interval, self.by_test, self.accuracy)
        )
        ideals = f"{100 * self.ideal_accuracy:>12.1f}{100 * self.ideal_by_interval:>12.1f} ({100 * self.ideal_widened:.1f})"
        verdict = "  MISSED" if self.missed else ""
        return f"{self.kind:<12}{100 * self.strength:>9.0f} %{numbers}{self.spread:>9.2f}{ideals}{verdict}"


def draw_texts(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return two texts per row from the same distribution, and which of them has each property.

    Returns:
        texts: (rows, 2).
        owner: (rows, kinds), 0 or 1: the text with the word, the longer text, the text without a final stop,
            and the text with the colour before the size.
    """
    owner = rng.integers(0, 2, (rows, len(SHORTCUTS)))
    pairs = np.empty((rows, 2), dtype=object)
    for row in range(rows):
        first, second = rng.choice(OBJECTS, 2, replace=False)
        size, colour, more, where = (str(rng.choice(names)) for names in (SIZES, COLOURS, MORE, RELATIONS))
        for side in (0, 1):
            has = owner[row] == side
            adjectives = f"{colour} {size}" if has[3] else f"{size} {colour}"
            beside = f"{more} {second}" if has[1] else second
            view = "in view" if has[0] else "in sight"
            pairs[row, side] = f"A {adjectives} {first} {where} a {beside} {view}{'' if has[2] else '.'}"
    return pairs, owner


def draw_planted_rows(shortcut: str, strength: float, *, rows: int, seed: int) -> pd.DataFrame:
    """Return audit rows with a shortcut on a share ``strength`` of them; 0 gives a clean set."""
    rng = np.random.default_rng(seed)
    pairs, owner = draw_texts(rows, rng)
    negative = rng.integers(0, 2, rows)
    chosen = rng.permutation(rows)[: round(strength * rows)]
    if strength:
        negative[chosen] = owner[chosen, SHORTCUTS.index(shortcut)]
    at = np.arange(rows)
    return pd.DataFrame(
        {
            "pair_id": [f"{n:05d}" for n in range(rows)],
            "image_id": [f"{n:05d}.jpg" for n in range(rows)],
            "type": "all",
            "subtype": "all",
            "caption": pairs[at, 1 - negative],
            "caption2": None,
            "negative_caption": pairs[at, negative],
        }
    )


def attack_planted_rows(
    shortcut: str, strength: float, rows: int, seed: int, scorers: Sequence[str]
) -> tuple[float, float, float]:
    """Return accuracy, lower end of its interval and p-value of the best blind attacker on one draw."""
    attack = run_caption_attack(
        draw_planted_rows(shortcut, strength, rows=rows, seed=seed), scorers, folds=FOLDS, seed=seed
    )
    overall = attack.figures[BEST]["overall"]
    return overall["micro"], overall["ci_low"], overall["p_value"]


def compute_ideal_power(strength: float, rows: int, *, factor: float = 1.0) -> float:
    """Return how often the ideal attacker's interval is above one half.

    Args:
        strength: of the shortcut, in [0, 1).
        rows: of the data set.
        factor: multiplies the variance behind the interval.
    """
    return NormalDist().cdf((strength * rows**0.5 - Z * factor**0.5) / (1 - strength**2) ** 0.5)


def summarise_draws(
    shortcut: str, strength: float, rows: int, draws: Iterable[tuple[float, float, float]]
) -> Outcome:
    """Return the shares over the draws of one kind and strength."""
    accuracy, low, p = np.array(list(draws)).T
    return Outcome(
        shortcut,
        strength,
        len(low),
        float((low > 0.5).mean()),
        float((p < 0.05).mean()),
        float(accuracy.mean()),
        float(accuracy.std(ddof=1) / (0.25 * (1 - strength**2) / rows) ** 0.5),
        (1 + strength) / 2,
        compute_ideal_power(strength, rows),
        compute_ideal_power(strength, rows, factor=variance_factor(FOLDS)),
    )


def measure_power(
    rows: int,
    seeds: int,
    clean_seeds: int,
    *,
    scorers: Sequence[str],
    jobs: int,
    first: int = 0,
    strengths: Sequence[float] = STRENGTHS,
) -> list[Outcome]:
    """Return the outcomes of a clean set and of every kind at every strength, each with its own seeds."""
    cases = [
        ("clean", 0.0, clean_seeds),
        *((shortcut, s, seeds) for shortcut in SHORTCUTS for s in strengths),
    ]
    draws = [(number, shortcut, s) for number, (shortcut, s, count) in enumerate(cases) for _ in range(count)]
    columns = list(
        zip(
            *((shortcut, s, rows, first + i, scorers) for i, (_, shortcut, s) in enumerate(draws)),
            strict=True,
        )
    )
    with ProcessPoolExecutor(jobs) as pool:
        results = (
            list(pool.map(attack_planted_rows, *columns, chunksize=8))
            if jobs > 1
            else list(map(attack_planted_rows, *columns))
        )
    by_case = [[f for f, draw in zip(results, draws, strict=True) if draw[0] == n] for n in range(len(cases))]
    return [
        summarise_draws(shortcut, s, rows, case_results)
        for (shortcut, s, _), case_results in zip(cases, by_case, strict=True)
    ]


def compute_acceptance_bounds(rows: int, limit: float) -> tuple[float, float, float]:
    """Return the highest accepted and lowest refused share of hits, and how often chance is accepted.

    Half hits count, as ties do. The first value is NaN if no share is accepted.
    """
    effective = rows / variance_factor(FOLDS)
    shares = np.arange(2 * rows + 1) / (2 * rows)
    states = [
        compute_verdict(p, *map(float, wilson_interval(p, effective)), rows=rows, limit=limit).state
        for p in shares.tolist()
    ]
    accepted, refused = (shares[[state == name for state in states]] for name in ("accepted", "refused"))
    slack = (limit - 0.5) * effective**0.5 - Z * (limit * (1 - limit)) ** 0.5
    highest = float(accepted.max()) if len(accepted) else float("nan")
    return highest, float(refused.min()) if len(refused) else float("nan"), NormalDist().cdf(2 * slack)


def print_gates() -> None:
    """Print the bounds of the acceptance rule for some limits and numbers of rows."""
    click.echo(f"Independent rows, {FOLDS} folds; per cent.\n")
    head = ("limit", "rows", "accepted up to", "refused from", "chance accepted", "rows needed")
    click.echo("".join(f"{name:>17}" for name in head))
    for limit in (0.52, 0.55, 0.6, 0.65):
        needed = required_sample_size(limit) * variance_factor(FOLDS)
        for rows in (100, 200, 300, 807, 1600, 3800, 10000):
            line = "".join(
                f"{100 * share:>17.1f}" for share in (limit, *compute_acceptance_bounds(rows, limit))
            )
            click.echo(f"{line[:17]}{rows:>17}{line[17:]}{needed:>17,.0f}")


@click.command()
@click.option("--gates", is_flag=True, help="Print the bounds of the acceptance rule and exit.")
@click.option(
    "--rows", default=600, show_default=True, type=click.IntRange(50), help="Rows of each data set."
)
@click.option(
    "--seeds", default=40, show_default=True, type=click.IntRange(2), help="Seeds per kind and strength."
)
@click.option(
    "--clean-seeds", default=100, show_default=True, type=click.IntRange(2), help="Seeds for the clean set."
)
@click.option("--scorer", "scorers", multiple=True, default=QUICK, show_default=True, help="Blind scorers.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option("--seed", default=0, show_default=True, help="First seed.")
@click.option("--out", type=click.Path(path_type=Path), help="JSON file for the results.")
def main(
    gates: bool,
    rows: int,
    seeds: int,
    clean_seeds: int,
    scorers: tuple[str, ...],
    jobs: int,
    seed: int,
    out: Path | None,
) -> None:
    """Measure the strength at which the audit finds planted shortcuts."""
    if gates:
        print_gates()
        return
    outcomes = measure_power(rows, seeds, clean_seeds, scorers=scorers, jobs=jobs, first=seed)
    click.echo(
        f"{rows} rows, {seeds} seeds ({clean_seeds} of the clean set), scorers: {', '.join(scorers)}\n"
    )
    head = f"{'by interval':>12}{'by test':>12}{'accuracy':>12}{'spread':>9}{'ideal acc.':>12}{'ideal alarm':>12}"
    click.echo(f"{'shortcut':<12}{'strength':>11}{head}")
    for one in outcomes:
        click.echo(str(one))
    if out:
        text = json.dumps({"rows": rows, "outcomes": [asdict(one) for one in outcomes]}, indent=1)
        out.write_text(text + "\n", encoding="utf-8")
    missed = sum(one.missed for one in outcomes)
    click.echo(f"\n{missed} goals missed.")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
