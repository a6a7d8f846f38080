"""Draw CREPE's figures 4 to 8, 12 and 13 (Ma et al. 2023) of results on any models and corpora.

Recall at 1 is in per cent throughout, and a dotted line is chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from caramel.crepe.results.recalls import SPLITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Type of negatives -> (title, number of candidates).
SYSTEMATIC = {"both": ("HN-Atom + HN-Comp", 11), "atom": ("HN-Atom", 5), "comp": ("HN-Comp", 7)}
PRODUCTIVE = {"atom": ("HN-Atom", 6), "swap": ("HN-Swap", 6), "negate": ("HN-Neg", 6)}
ALL_TYPES = {"all_types": ("HN-Atom + HN-Swap + HN-Neg", 16)}
FIG_8_ATOMS = (4, 8, 12)
AT_LEAST = 3  # models of a correlation
LEGEND_COLUMNS = 3
MOST_COLUMNS, WRAPPED_COLUMNS = 4, 3  # panels in one line, and in each of several


def plot_systematicity(rows: pd.DataFrame) -> Figure:
    """Return figure 4: recall on seen and on unseen compounds, a line for each model, a panel for each type.

    Args:
        rows: from ``select_systematicity``.
    """
    figure, panels = _create_panels(list(SYSTEMATIC.values()))
    splits = [split for split in SPLITS if split in set(rows["split"])]
    for axis, (negative_type, (_, candidates)) in zip(panels, SYSTEMATIC.items(), strict=True):
        of_type = rows[rows["type"] == negative_type]
        for number, ((model, corpus), line) in enumerate(rows.groupby(["model", "corpus"], sort=False)):
            values = of_type.loc[of_type.index.isin(line.index)].set_index("split")["value"].reindex(splits)
            axis.plot(range(len(splits)), values, label=f"{model}, {corpus}", **_build_style(number))
        axis.axhline(100 / candidates, color="grey", ls=":")
        axis.set_xticks(range(len(splits)), [SPLITS[split].replace(" ", "\n") for split in splits])
        axis.set_xlim(-0.3, len(splits) - 0.7)
    return _add_legend(figure, panels)


def plot_productivity(rows: pd.DataFrame, types: Mapping[str, tuple[str, int]] = PRODUCTIVE) -> Figure:
    """Return figures 6 and 13: recall by number of atoms, a line for each model, a panel for each type.

    Args:
        rows: from ``select_productivity``.
        types: type -> (title, number of candidates).
    """
    figure, panels = _create_panels(list(types.values()))
    for axis, (negative_type, (_, candidates)) in zip(panels, types.items(), strict=True):
        of_type = rows[rows["type"] == negative_type]
        for number, model in enumerate(dict.fromkeys(rows["model"])):
            line = of_type[of_type["model"] == model].sort_values("n")
            axis.plot(line["n"], line["value"], label=model, **_build_style(number))
        _label_atoms(axis, rows, candidates)
    return _add_legend(figure, panels)


def plot_mean_productivity(rows: pd.DataFrame) -> Figure:
    """Return figure 5: the mean recall of all models by number of atoms, with the range of the models."""
    figure, panels = _create_panels(list(PRODUCTIVE.values()))
    for axis, (negative_type, (_, candidates)) in zip(panels, PRODUCTIVE.items(), strict=True):
        by_n = rows[rows["type"] == negative_type].groupby("n")["value"].agg(["mean", "min", "max"])
        axis.plot(by_n.index, by_n["mean"], label="mean of models", **_build_style(0))
        axis.fill_between(by_n.index, by_n["min"], by_n["max"], alpha=0.2, label="range of models")
        _label_atoms(axis, rows, candidates)
    return _add_legend(figure, panels)


def plot_against_imagenet(
    panels_of: Mapping[str, pd.DataFrame], accuracies: Mapping[str, float]
) -> Figure | None:
    """Return figures 7 and 8: recall against zero-shot accuracy on ImageNet, with the line of least squares and R².

    Args:
        panels_of: title -> (model, value) in per cent.
        accuracies: model -> accuracy in per cent.

    Returns:
        The figure; None if fewer than ``AT_LEAST`` models have both.
    """
    known = {title: rows[rows["model"].isin(accuracies)] for title, rows in panels_of.items()}
    known = {title: rows for title, rows in known.items() if rows["model"].nunique() >= AT_LEAST}
    if not known:
        return None
    figure, panels = _create_panels([(title, 0) for title in known])
    for axis, rows in zip(panels, known.values(), strict=True):
        x = np.array([accuracies[model] for model in rows["model"]])
        y = rows["value"].to_numpy(float)
        axis.scatter(x, y, s=18)
        slope, intercept = np.polyfit(x, y, 1)
        ends = np.array([x.min(), x.max()])
        axis.plot(ends, slope * ends + intercept, lw=1)
        axis.text(0.05, 0.93, f"R² = {compute_r2(x, y):.2f}", transform=axis.transAxes)
        axis.set_xlabel("ImageNet top-1, %")
    return figure


def compute_r2(x: np.ndarray, y: np.ndarray) -> float:
    """Return the squared correlation of two quantities, in [0, 1]; NaN if one is constant."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def plot_frequencies(counts: pd.DataFrame) -> Figure:
    """Return figure 12: how often each atom stands in the corpus and in the set, on a logarithmic scale.

    Args:
        counts: file of frequencies of the systematicity set; see ``results.frequencies``.
    """
    atoms = counts[counts["type"] != "compound"]
    splits = [split for split in SPLITS if split in set(atoms["split"])]
    figure, panels = _create_panels([(SPLITS[split], 0) for split in splits])
    for axis, split in zip(panels, splits, strict=True):
        for number, (name, rows) in enumerate(atoms[atoms["split"] == split].groupby("type", sort=False)):
            axis.scatter(
                rows["in_corpus"] + 1, rows["in_set"], s=9, alpha=0.6, color=f"C{number}", label=name
            )
        axis.set(xscale="log", yscale="log", xlabel="captions of the corpus with the atom, + 1")
    panels[0].set_ylabel("examples of the set with it")
    panels[0].legend(frameon=False)
    return figure


def _create_panels(titles: Sequence[tuple[str, int]]) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    columns = len(titles) if len(titles) <= MOST_COLUMNS else WRAPPED_COLUMNS
    lines = -(-len(titles) // columns)
    figure = Figure(figsize=(3.4 * columns + 0.6, 3.0 * lines + 0.6), layout="constrained")
    grid = figure.subplots(lines, columns, sharey=True, squeeze=False)
    for axis in grid.flat[len(titles) :]:
        axis.set_visible(False)
    panels = grid.flat[: len(titles)].tolist()
    for axis, (title, _) in zip(panels, titles, strict=True):
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3)
    for axis in grid[:, 0]:
        axis.set_ylabel("recall at 1, %")
    return figure, panels


def _label_atoms(axis: Axes, rows: pd.DataFrame, candidates: int) -> None:
    axis.axhline(100 / candidates, color="grey", ls=":")
    axis.set_xticks(sorted(set(rows["n"])))
    axis.set_xlabel("atoms")


def _add_legend(figure: Figure, panels: Sequence[Axes]) -> Figure:
    handles, labels = panels[0].get_legend_handles_labels()
    panels[0].set_ylim(bottom=0)
    figure.legend(
        handles, labels, loc="outside lower center", ncols=LEGEND_COLUMNS, frameon=False, fontsize=8
    )
    return figure


def _build_style(number: int) -> dict[str, Any]:
    """Return the colour, marker and line of a model: ten colours, then other markers and lines."""
    return {"color": f"C{number % 10}", "marker": "osv^D"[number // 10 % 5], "ms": 4, "lw": 1.3, "ls": ["-", "--"][number // 10 % 2]}  # fmt: skip
