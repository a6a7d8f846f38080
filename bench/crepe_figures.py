"""Build the tables and the image of "CREPE on the world" in docs/results.md from the results of `bench/crepe.py`.

`python bench/crepe_figures.py OUT --seeds 1 2 3` prints the tables in Markdown and writes
docs/pictures/crepe.png. The metric is recall at 1 in per cent: mean over the seeds, with Student's 95 %
interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from caramel.utils.stats import summarise_seeds

SPLITS = {"sc": "seen compounds", "uc": "unseen compounds", "ua": "unseen atoms"}
SETS = {"atom": 1 / 5, "comp": 1 / 7, "both": 1 / 11}  # systematicity: type of negative -> chance
FOILS = {
    "atom": 1 / 6,
    "swap": 1 / 6,
    "negate": 1 / 6,
    "all_types": 1 / 16,
}  # productivity: type of negative -> chance
COMPLEXITIES = range(4, 13)
FIGURE_PATH = Path("docs/pictures/crepe.png")


def load_recalls(out: Path, seeds: Sequence[int]) -> pd.DataFrame:
    """Return recall at 1 in per cent and n: rows by seed, columns by (value or n, model, subset)."""
    parts = [pd.read_csv(out / f"seed{seed}" / "scores" / "metrics.csv").assign(seed=seed) for seed in seeds]
    rows = pd.concat(parts)
    rows = rows[rows["metric"] == "recall@1"].assign(value=lambda frame: 100 * frame["value"])
    return rows.pivot_table(index="seed", columns=["model", "subset"], values=["value", "n"])


def format_interval(values: pd.Series, sign: str = "") -> str:
    """Return mean and half the width of the interval, as "51.0 ± 29.0"."""
    summary = summarise_seeds(values.to_numpy(float))
    return f"{summary.mean:{sign}.1f} ± {summary.mean - summary.low:.1f}"


def format_systematicity(recall_table: pd.DataFrame) -> str:
    """Return the table by split and negatives: the seed's own model, the other, and their difference."""
    lines = ["| split | negatives | own | other | own − other | captions |", "|---|---|---|---|---|---|"]
    for split in SPLITS:
        for negative_type in SETS:
            own_recall, other = (
                recall_table["value", model, f"world/{split}/{negative_type}"] for model in ("own", "other")
            )
            number = int(recall_table["n", "own", f"world/{split}/{negative_type}"].sum())
            lines.append(
                f"| {split} | {negative_type} | {format_interval(own_recall)} | {format_interval(other)} | {format_interval(own_recall - other, '+')} | {number:,} |"
            )
    return "\n".join(lines)


def format_split_gaps(recall_table: pd.DataFrame) -> str:
    """Return the gaps of the other splits to seen compounds for both models, and the difference of these gaps."""
    lines = ["| from sc to | negatives | own | other | own − other |", "|---|---|---|---|---|"]
    for split in ("uc", "ua"):
        for negative_type in SETS:
            own_gap, other = (
                recall_table["value", model, f"world/{split}/{negative_type}"]
                - recall_table["value", model, f"world/sc/{negative_type}"]
                for model in ("own", "other")
            )
            lines.append(
                f"| {split} | {negative_type} | {format_interval(own_gap, '+')} | {format_interval(other, '+')} | {format_interval(own_gap - other, '+')} |"
            )
    return "\n".join(lines)


def format_productivity(recall_table: pd.DataFrame, model: str) -> str:
    """Return the table of a model by complexity and type of negative."""
    lines = ["| atoms | " + " | ".join(FOILS) + " |", "|---" * (len(FOILS) + 1) + "|"]
    for n in COMPLEXITIES:
        columns = [("value", model, f"{negative_type}/n{n}") for negative_type in FOILS]
        cells = [
            format_interval(recall_table[column]) if column in recall_table.columns else "–"
            for column in columns
        ]
        lines.append(f"| {n} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot_recalls(recall_table: pd.DataFrame, path: Path) -> None:
    """Draw recall by split and by complexity for the seeds' own models; dotted lines mark chance."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 3], sharey=True)
    for shift, (negative_type, chance) in enumerate(SETS.items()):
        _plot_curve(
            left,
            recall_table,
            [f"world/{split}/{negative_type}" for split in SPLITS],
            negative_type,
            chance,
            (shift - 1) / 12,
        )
    left.set_xticks(range(len(SPLITS)), [name.replace(" ", "\n") for name in SPLITS.values()])
    left.set(ylabel="recall at 1, per cent", ylim=(0, 75), title="systematicity")
    for shift, (negative_type, chance) in enumerate(FOILS.items()):
        _plot_curve(
            right,
            recall_table,
            [f"{negative_type}/n{n}" for n in COMPLEXITIES],
            negative_type,
            chance,
            (shift - 1.5) / 8,
        )
    right.set_xticks(range(len(COMPLEXITIES)), [str(n) for n in COMPLEXITIES])
    right.axvline(2.5, color="grey", lw=0.8, ls="--")
    right.set(xlabel="atoms; training had up to 6 (dashed)", title="productivity")
    for axis in (left, right):
        axis.grid(axis="y", alpha=0.3)
        axis.legend(ncols=2, fontsize=8)
    figure.savefig(path, dpi=110)


def _plot_curve(
    axis: Axes, recall_table: pd.DataFrame, subsets: Sequence[str], name: str, chance: float, shift: float
) -> None:
    """Draw one line with its intervals and its chance level in one colour."""
    positions = [k for k, subset in enumerate(subsets) if ("value", "own", subset) in recall_table.columns]
    of = [summarise_seeds(recall_table["value", "own", subsets[k]].to_numpy(float)) for k in positions]
    half = [s.mean - s.low for s in of]
    bars = axis.errorbar(
        np.add(positions, shift),
        [s.mean for s in of],
        half,
        marker="o",
        ms=4,
        lw=1.5,
        elinewidth=0.8,
        label=name,
    )
    axis.axhline(100 * chance, color=bars[0].get_color(), lw=0.9, ls=":")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    given = parser.parse_args()
    table = load_recalls(given.out, given.seeds)
    print(
        format_systematicity(table),
        format_split_gaps(table),
        *(format_productivity(table, m) for m in ("own", "other")),
        sep="\n\n",
    )
    plot_recalls(table, FIGURE_PATH)
