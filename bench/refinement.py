"""Measure refinement and selection at scale: `python bench/refinement.py`.

Pairs with random scores under two blind scorers are

- refined on the grid of `mirrored_grid`, and by the published procedure in plain Python: loops over pairs and
  cells, written from its definition. Both get the same gaps, and both keep equal numbers per cell.
- selected by `selection`: percentiles, cleaning rules, grid.

Each runs in its own process. Prints one JSON object: seconds and peak memory, each with and without building
the input. Nothing is downloaded. On two cores it takes about two minutes.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.refine.mirrored_grid import UNIT, compute_grid_cells, select_balanced
from caramel.refine.selection import find_reasons, select_rows

CELL, SEED = 0.02, 1
SUBTYPES = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")
GOAL_GB = 4.0

Ints = npt.NDArray[np.int64]


def draw_scores(pairs: int) -> npt.NDArray[np.float64]:
    """Return scores of the captions and of the negatives under two scorers. (2, n, 2)."""
    return np.random.default_rng(SEED).random((2, pairs, 2)).round(6)


def draw_gaps(pairs: int) -> Ints:
    """Return gaps of pairs under two scorers in units of 1e-6; one in a hundred is zero. (n, 2)."""
    positive, negative = draw_scores(pairs)
    gaps: Ints = np.rint((positive - negative) * UNIT).astype(np.int64)
    gaps[np.random.default_rng(SEED + 1).random(gaps.shape) < 0.01] = 0
    return gaps


def refine_in_python(gaps: list[list[int]], rng: random.Random) -> list[int]:
    """Return the pairs that adversarial refinement keeps (Hsieh et al. 2023, D.3), in plain Python.

    Gaps are in whole units, so that a cell and its mirror image are exact.
    """
    side, zero_side = round(CELL * UNIT), UNIT // 10
    selected: list[int] = []
    cells: dict[tuple[int, int], list[int]] = {}
    for i, (first, second) in enumerate(gaps):
        if first == 0 and second == 0:
            selected.append(i)
            continue
        step = side if first != 0 and second != 0 else zero_side
        cell = []
        for gap in (first, second):
            number = 0 if gap == 0 else (abs(gap) - 1) // step + 1
            cell.append(number if gap > 0 else -number)
        cells.setdefault((cell[0], cell[1]), []).append(i)
    for (a, b), here in cells.items():
        mirrored = cells.get((-a, -b), [])
        if (a, b) > (-a, -b) or not mirrored:
            number = min(len(here), len(mirrored))
            selected += rng.sample(here, number)
            selected += rng.sample(mirrored, number)
    return selected


def count_per_cell(gaps: Ints, selected: Any) -> Counter[tuple[int, ...]]:
    """Return the number of kept pairs of each cell."""
    return Counter(map(tuple, compute_grid_cells(gaps, cell=CELL)[selected].tolist()))


def measure_refinement(pairs: int) -> dict[str, Any]:
    """Time the grid, then the plain procedure, on the same gaps."""
    gaps = draw_gaps(pairs)
    names = [f"{i:07d}:swap_obj" for i in range(pairs)]
    before = read_peak_gb()
    start = time.perf_counter()
    selected = select_balanced(gaps, names, None, cell=CELL, seed=SEED)
    seconds = time.perf_counter() - start
    after = read_peak_gb()
    plain_gaps = gaps.tolist()
    start = time.perf_counter()
    plain = refine_in_python(plain_gaps, random.Random(SEED))
    plain_seconds = time.perf_counter() - start
    equal = count_per_cell(gaps, selected) == count_per_cell(gaps, np.array(plain, dtype=np.int64))
    wins = [int(np.sign(gaps[selected]).sum(axis=0)[k]) for k in (0, 1)]
    return {
        "pairs": pairs,
        "kept": int(selected.sum()),
        "wins_less_losses": wins,
        "seconds": round(seconds, 2),
        "peak_gb": round(after, 2),
        "peak_gb_with_input_alone": round(before, 2),
        "plain_seconds": round(plain_seconds, 2),
        "plain_kept": len(plain),
        "ratio": round(plain_seconds / seconds, 1),
        "same_counts_in_every_cell": equal,
    }


def generate_rows(pairs: int) -> pd.DataFrame:
    """Return rows with captions of random words; some negatives are questions, unfinished or duplicates."""
    rng = np.random.default_rng(SEED + 2)
    words = np.array([f"word{i}" for i in range(5000)])
    drawn = rng.integers(0, len(words), (pairs, 8))
    texts = pd.Series(words[drawn[:, 0]], dtype="str").str.capitalize()
    for column in drawn[:, 1:].T:
        texts = texts + " " + words[column]
    ends = np.array([".", "?", ""])[rng.choice(3, pairs, p=[0.9, 0.02, 0.08])]
    negatives = (texts + " " + words[rng.integers(0, len(words), pairs)] + ends).to_numpy(dtype=object)
    twice = rng.random(pairs) < 0.01
    negatives[twice] = negatives[0]
    return pd.DataFrame(
        {
            "pair_id": [f"{i:07d}" for i in range(pairs)],
            "subtype": np.array(SUBTYPES)[np.arange(pairs) % len(SUBTYPES)],
            "caption": texts + ".",
            "negative_caption": negatives,
        }
    )


def measure_selection(pairs: int) -> dict[str, Any]:
    """Time the selection: percentiles, cleaning, grid."""
    rows, (positive, negative) = generate_rows(pairs), draw_scores(pairs)
    before = read_peak_gb()
    start = time.perf_counter()
    settings: dict[str, Any] = {"cell": CELL, "within": "all", "seed": SEED}
    reasons = find_reasons(rows, positive, negative, scorers=("plausibility", "acceptability"), **settings)
    result = select_rows(rows, reasons)
    seconds = time.perf_counter() - start
    assert len(result.rows) + len(result.rejects) == pairs
    return {
        "pairs": pairs,
        "kept": len(result.rows),
        "rejected": result.rejects["reason"].value_counts().to_dict(),
        "seconds": round(seconds, 2),
        "peak_gb": round(read_peak_gb(), 2),
        "peak_gb_with_input_alone": round(before, 2),
    }


def read_peak_gb() -> float:
    """Return the peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@click.command()
@click.option(
    "--pairs", default=3_650_000, show_default=True, type=click.IntRange(1), help="Pairs to refine."
)
@click.option("--only", type=click.Choice(["refine", "selection"]), help="Run one part, in this process.")
def main(pairs: int, only: str | None) -> None:
    """Print the results as JSON; exit with code 1 if a goal is missed."""
    if only:
        click.echo(json.dumps({"refine": measure_refinement, "selection": measure_selection}[only](pairs)))
        return
    results = {}
    for part in ("refine", "selection"):
        command = [sys.executable, __file__, "--pairs", str(pairs), "--only", part]
        results[part] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    click.echo(json.dumps(results, indent=2))
    if not results["refine"]["same_counts_in_every_cell"] or any(
        f["peak_gb"] > GOAL_GB for f in results.values()
    ):
        sys.exit(1)


if __name__ == "__main__":
    main()
