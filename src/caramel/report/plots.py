"""Draw figures with matplotlib without a display, once for light and once for dark pages."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from caramel.report.blocks import ThemedFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 144


@dataclass(frozen=True)
class Theme:
    """Colours of one page theme."""

    paper: str
    ink: str
    faint: str
    series: tuple[str, ...]


# Hues that colour-blind readers can distinguish (after P. Tol's "bright" and "vibrant"): one for the base and each variant
# of the default profile.
LIGHT = Theme(
    "#ffffff",
    "#24292f",
    "#d5d9de",
    ("#6b7280", "#3568a8", "#d9622b", "#1d8a5f", "#a03d85", "#b8901c", "#45b5dd"),
)
DARK = Theme(
    "#16191d",
    "#d8dce1",
    "#3a4048",
    ("#9aa3af", "#6fa3e6", "#f2905c", "#4fc193", "#d680bd", "#dcb94a", "#8fdcf7"),
)


def render_figure(draw: Callable[[Theme], Figure]) -> ThemedFigure:
    """Return a figure in both themes, as reproducible PNG files."""
    arranged = _set_positions_once(draw)
    light = _render_png(arranged, LIGHT)
    pixels = int.from_bytes(light[16:20])  # width in the header of a PNG file
    return ThemedFigure(light, _render_png(arranged, DARK), width=pixels * 96 // DPI)


def _set_positions_once(draw: Callable[[Theme], Figure]) -> Callable[[Theme], Figure]:
    """Return a function that draws a figure and arranges its panels.

    matplotlib finds their positions by drawing the figure several times. Themes differ in colours alone, so those
    found for the first hold for the others too.
    """
    positions: list[Any] = []

    def draw_arranged(theme: Theme) -> Figure:
        figure = draw(theme)
        engine = figure.get_layout_engine()
        if positions:
            for axes, position in zip(figure.axes, positions, strict=True):
                axes.set_position(position)
        elif engine is not None:
            engine.execute(figure)
            positions.extend(axes.get_position() for axes in figure.axes)
        figure.set_layout_engine(None)
        return figure

    return draw_arranged


def _render_png(draw: Callable[[Theme], Figure], theme: Theme) -> bytes:
    import matplotlib as mpl

    style: dict[Any, Any] = {
        "figure.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.faint,
        "axes.labelcolor": theme.ink,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.color": theme.ink,
        "xtick.color": theme.ink,
        "ytick.color": theme.ink,
        "grid.color": theme.faint,
        "legend.frameon": False,
        "font.size": 9,
        "text.parse_math": False,  # names in the data may have dollar signs
    }
    with mpl.rc_context(style):
        stream = io.BytesIO()
        draw(theme).savefig(stream, format="png", dpi=DPI, metadata={"Software": None})
    return stream.getvalue()


def create_panel_grid(count: int, *, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of ``count`` panels in rows of ``columns``; sizes in inches."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(width, height * rows), dpi=DPI, layout="constrained")
    axes = list(np.ravel(figure.subplots(rows, columns, squeeze=False)))
    for spare in axes[count:]:
        spare.set_visible(False)
    return figure, axes[:count]


def plot_blind_accuracy(before: pd.DataFrame, after: pd.DataFrame) -> ThemedFigure:
    """Return dots of blind accuracy before and after refinement, one panel per scorer.

    Args:
        before: columns scorer, subset, accuracy, ci_low, ci_high.
        after: the same.
    """
    scorers, subsets = list(dict.fromkeys(after["scorer"])), list(dict.fromkeys(after["subset"]))

    def draw_figure(theme: Theme) -> Figure:
        figure, panels = create_panel_grid(len(scorers), columns=3, width=9, height=0.8 + 0.26 * len(subsets))
        for index, (axes, scorer) in enumerate(zip(panels, scorers, strict=True)):
            for rows, colour, shift, label in (
                (before, theme.series[0], -0.14, "before"),
                (after, theme.series[2], 0.14, "after"),
            ):
                scorer_rows = rows[rows["scorer"] == scorer].set_index("subset").reindex(subsets)
                at = np.arange(len(subsets)) + shift
                axes.hlines(at, scorer_rows["ci_low"], scorer_rows["ci_high"], color=colour, linewidth=1.5)
                axes.plot(scorer_rows["accuracy"], at, "o", color=colour, markersize=5, label=label)
            axes.axvline(0.5, color=theme.ink, linewidth=0.8, linestyle=":")
            axes.set(title=scorer, xlim=(-0.02, 1.02), ylim=(len(subsets) - 0.5, -0.5))
            axes.set_yticks(range(len(subsets)), subsets if index % 3 == 0 else [""] * len(subsets))
            axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="x", alpha=0.5)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        return figure

    return render_figure(draw_figure)


def plot_bars(
    panels_of: Mapping[str, pd.DataFrame], errors: Mapping[str, pd.DataFrame], chance: Mapping[str, float]
) -> ThemedFigure:
    """Return grouped bars, one panel per metric.

    Args:
        panels_of: metric -> values in [0, 1], one row per subset, one column per model.
        errors: metric -> half lengths of the error bars, of the same shape; NaN for none.
        chance: metric -> dotted line.
    """

    def draw_figure(theme: Theme) -> Figure:
        figure, panels = create_panel_grid(len(panels_of), columns=1, width=9, height=2.1)
        for axes, (metric, values) in zip(panels, panels_of.items(), strict=True):
            width = 0.84 / len(values.columns)
            for i, model in enumerate(values.columns):
                at = np.arange(len(values)) + (i - (len(values.columns) - 1) / 2) * width
                colour = theme.series[i % len(theme.series)]
                axes.bar(at, values[model], width * 0.94, color=colour, label=model)
                spread = errors[metric][model].fillna(0).to_numpy()
                axes.errorbar(at, values[model], spread, fmt="none", ecolor=theme.ink, elinewidth=0.9)
            axes.axhline(chance[metric], color=theme.ink, linewidth=0.8, linestyle=":")
            axes.set(title=metric, ylim=(0, 1.04))
            axes.set_xticks(range(len(values)), values.index)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
        return figure

    return render_figure(draw_figure)


def plot_yield(shares: pd.Series[float]) -> ThemedFigure:
    """Return horizontal bars of shares in [0, 1], labelled by the series' index."""

    def draw_figure(theme: Theme) -> Figure:
        figure, (axes,) = create_panel_grid(1, columns=1, width=6, height=0.7 + 0.3 * len(shares))
        bars = axes.barh(range(len(shares)), shares.to_numpy(), 0.66, color=theme.series[1])
        axes.bar_label(bars, [f"{100 * v:.0f} %" for v in shares], padding=4, color=theme.ink)
        axes.set_yticks(range(len(shares)), shares.index)
        axes.set(xlim=(0, 1.08), ylim=(len(shares) - 0.5, -0.5), xlabel="share of candidates")
        return figure

    return render_figure(draw_figure)


def plot_learning_curves(curves: pd.DataFrame, groups: Sequence[str]) -> ThemedFigure:
    """Return learning curves, one panel per metric; runs of one group share a colour.

    Args:
        curves: columns model, step, metric, value, group, and kept, which marks the step with a dot.
        groups: the groups, in the order of their colours.
    """
    metrics = list(dict.fromkeys(curves["metric"]))

    def draw_figure(theme: Theme) -> Figure:
        figure, panels = create_panel_grid(len(metrics), columns=3, width=9, height=2.4)
        for axes, metric in zip(panels, metrics, strict=True):
            for (_, group), rows in curves[curves["metric"] == metric].groupby(
                ["model", "group"], sort=False
            ):
                colour = theme.series[groups.index(str(group)) % len(theme.series)]
                line = rows.sort_values("step")
                dots = np.flatnonzero(line["kept"]).tolist()
                axes.plot(
                    line["step"],
                    line["value"],
                    color=colour,
                    linewidth=1.3,
                    marker="o",
                    markersize=4,
                    markevery=dots,
                    label=group,
                )
            axes.set(title=metric, xlabel="step")
            axes.grid(alpha=0.4)
        entries = {
            label: handle
            for axes in panels
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if len(entries) > 1:
            figure.legend(
                list(entries.values()), list(entries), loc="outside upper center", ncols=len(entries)
            )
        return figure

    return render_figure(draw_figure)
