"""Plot the audit page's figures: gaps in one and two dimensions, and box plots of similarity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.report.blocks import ThemedFigure
from caramel.report.plots import Theme, create_panel_grid, render_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 40  # over the width of a histogram; even, so that a bin ends at 0
REACH = 99.5  # per cent of the rows within a histogram's width; the others are clipped to its edges


def plot_gap_histograms(gaps: pd.DataFrame) -> ThemedFigure:
    """Return a histogram of each scorer's gaps, with right and wrong rows in two colours.

    Many ties would hide the other rows, so they are counted in the title and not drawn.

    Args:
        gaps: one column per scorer: gaps in [-1, 1], true caption minus negative.
    """

    def draw_figure(theme: Theme) -> Figure:
        figure, panels = create_panel_grid(len(gaps.columns), columns=3, width=9, height=1.75)
        for axes, name in zip(panels, gaps.columns, strict=True):
            values = gaps[name].to_numpy()
            edges = _compute_bin_edges(values)
            inside = np.clip(values, edges[0], edges[-1])
            for rows, colour, label in (
                (inside[values < 0], theme.series[2], "negative preferred"),
                (inside[values > 0], theme.series[1], "true caption preferred"),
            ):
                axes.hist(rows, edges, color=colour, label=label)
            axes.axvline(0, color=theme.ink, linewidth=0.8, linestyle=":")
            axes.set_title(f"{name}\n{np.sum(values == 0)} ties of {len(values)}", fontsize=9)
            axes.locator_params(axis="x", nbins=4)
            axes.set_yticks([])
            axes.spines["left"].set_visible(False)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
        return figure

    return render_figure(draw_figure)


def plot_gap_planes(gaps: pd.DataFrame) -> ThemedFigure:
    """Return a histogram over the plane for each pair of scorers; darker (lighter on dark pages) is more rows.

    Args:
        gaps: one column per scorer: gaps in [-1, 1]; at least two.
    """
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    pairs = list(combinations(gaps.columns, 2))

    def draw_figure(theme: Theme) -> Figure:
        colours = LinearSegmentedColormap.from_list("rows", [theme.faint, theme.series[1], theme.ink])
        figure, panels = create_panel_grid(len(pairs), columns=3, width=3 * min(3, len(pairs)), height=2.9)
        for axes, names in zip(panels, pairs, strict=True):
            x, y = (gaps[name].to_numpy() for name in names)
            across, up = _compute_bin_edges(x), _compute_bin_edges(y)
            x, y = np.clip(x, across[0], across[-1]), np.clip(y, up[0], up[-1])
            axes.hist2d(
                x, y, bins=(across, up), cmap=colours, norm=LogNorm(1, max(2, len(gaps) / 20)), cmin=1
            )
            axes.axhline(0, color=theme.ink, linewidth=0.8, linestyle=":")
            axes.axvline(0, color=theme.ink, linewidth=0.8, linestyle=":")
            axes.set(xlabel=names[0], ylabel=names[1], box_aspect=1)
            axes.locator_params(nbins=4)
        return figure

    return render_figure(draw_figure)


def _compute_bin_edges(values: npt.NDArray[np.float64]) -> list[float]:
    """Return the edges of bins around 0 that hold nearly all values."""
    reach = float(np.percentile(np.abs(values), REACH)) or 1.0
    edges: list[float] = (np.linspace(-1, 1, BINS + 1) * reach).tolist()
    return edges


def plot_quantile_boxes(panels_of: Mapping[str, Mapping[str, Sequence[float]]]) -> ThemedFigure:
    """Return box plots drawn from quantiles.

    Args:
        panels_of: title -> pair of texts -> five similarities in [0, 1]: ends of the whiskers and of the box,
            with the median third.
    """

    def draw_figure(theme: Theme) -> Figure:
        figure, panels = create_panel_grid(
            len(panels_of), columns=4, width=2.4 * min(4, len(panels_of)), height=2
        )
        for axes, (title, boxes) in zip(panels, panels_of.items(), strict=True):
            ends = ("whislo", "q1", "med", "q3", "whishi")
            stats = [
                {"label": name, **dict(zip(ends, values, strict=True))} for name, values in boxes.items()
            ]
            drawn = axes.bxp(
                stats, widths=0.55, patch_artist=True, showfliers=False, **_build_box_style(theme)
            )
            _fill_boxes(drawn["boxes"], theme)
            axes.set(title=title, ylim=(-0.02, 1.02))
            axes.grid(axis="y", alpha=0.5)
        return figure

    return render_figure(draw_figure)


def _build_box_style(theme: Theme) -> Any:  # keywords of Axes.boxplot and bxp
    """Return the line style of a box plot."""
    line = {"color": theme.ink, "linewidth": 1}
    return {
        "boxprops": {"edgecolor": theme.ink},
        "medianprops": {**line, "linewidth": 2},
        "whiskerprops": line,
        "capprops": line,
    }


def _fill_boxes(boxes: Sequence[Any], theme: Theme) -> None:
    """Colour each box."""
    for box, colour in zip(boxes, theme.series[1:], strict=False):
        box.set_facecolor(colour)


def plot_similarity_boxes(panels_of: Mapping[str, Mapping[str, Sequence[float]]]) -> ThemedFigure:
    """Return box plots like Figure 6 of SugarCrepe++ (Dumpala et al. 2024); whiskers reach 1.5 × the box."""

    def draw_figure(theme: Theme) -> Figure:
        figure, panels = create_panel_grid(
            len(panels_of), columns=3, width=3 * min(3, len(panels_of)), height=2.8
        )
        for axes, (title, boxes) in zip(panels, panels_of.items(), strict=True):
            drawn = axes.boxplot(
                [list(values) for values in boxes.values()],
                tick_labels=list(boxes),
                widths=0.55,
                patch_artist=True,
                **_build_box_style(theme),
                flierprops={
                    "marker": ".",
                    "markersize": 3,
                    "markeredgecolor": "none",
                    "markerfacecolor": theme.series[0],
                },
            )
            _fill_boxes(drawn["boxes"], theme)
            axes.set(title=title, ylim=(-0.02, 1.02))
            axes.grid(axis="y", alpha=0.5)
        return figure

    return render_figure(draw_figure)
