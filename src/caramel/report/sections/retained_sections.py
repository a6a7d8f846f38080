"""Build the section on forgetting: retrieval, classification, and the distance from the base."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from caramel.evaluation.results.forgetting import (
    DISTANCE_MEASURES,
    RETAINED_COLUMNS,
    RETENTION_MEASURES,
    compute_tradeoff,
    draw_tradeoff,
)
from caramel.report.blocks import (
    MISSING,
    Block,
    Cell,
    FigureBlock,
    TableBlock,
    format_interval,
    format_percent,
    format_signed,
)
from caramel.report.inputs import read_csv
from caramel.report.plots import Theme, create_panel_grid, render_figure
from caramel.report.sections.model_rows import read_metrics
from caramel.utils.stats import summarise_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAIN = ("i2t_1", "t2i_1", "classes", "zero_shot")  # beside the compositional metrics
NOTE = (
    "Small: change from the base with its 95 % interval, paired on the queries, over images and training seeds; not corrected. Retrieval: all "
    "captions of held-out pairs of the source are ranked for an image (I→T), their images for a caption (T→I); any caption of an image is a hit. "
    "Classes of the world: noun and colour in images of one object, mean of both, averaged prompts."
)


def build_retained_columns(data: Path) -> tuple[list[str], Mapping[str, list[Cell]]]:
    """Return column titles and, by variant, cells of the forgetting metrics for the main table."""
    rows = _read_retained(data)
    measures = [name for name in MAIN if name in set(rows["measure"])]
    return [RETENTION_MEASURES[name].title for name in measures], _build_cells(rows, measures)


def build_retained_section(data: Path) -> list[Block]:
    """Return gain against loss as a figure, and all forgetting metrics."""
    rows, metrics = _read_retained(data), read_metrics(data)
    words, points = compute_tradeoff(metrics, rows)
    measures = [name for name in (*RETENTION_MEASURES, *DISTANCE_MEASURES) if name in set(rows["measure"])]
    cells = _build_cells(rows, measures)
    titles = {name: measure.title for name, measure in RETENTION_MEASURES.items()} | dict(DISTANCE_MEASURES)
    note = (
        f"{NOTE} Weights moved: ‖θ − θ0‖ / ‖θ0‖ over both towers without the temperature, in per cent. Cosine: mean similarity of "
        "the model's and the base's vectors of the same held-out item; 1 is no change."
    )
    table = TableBlock(
        "",
        ("Model", *(titles[name] for name in measures)),
        [[Cell(variant), *of] for variant, of in cells.items()],
        note=note,
    )
    return [*([_build_figure(words, points)] if len(points) else []), table]


def _read_retained(data: Path) -> pd.DataFrame:
    return read_csv(data / "evaluate/retained.csv", RETAINED_COLUMNS)


def _build_cells(rows: pd.DataFrame, measures: Sequence[str]) -> dict[str, list[Cell]]:
    """Return, by variant, a cell for each measure."""
    cells: dict[str, list[Cell]] = {}
    for variant, of in rows.groupby("variant", sort=False):
        by_measure = {str(name): part for name, part in of.groupby("measure")}
        cells[str(variant)] = [
            _build_cell(name, by_measure[name]) if name in by_measure else Cell(MISSING) for name in measures
        ]
    return cells


def _build_cell(measure: str, rows: pd.DataFrame) -> Cell:
    """Return mean and spread over seeds, and for shares also the change from the base."""
    mean, sd, *_ = summarise_seeds(rows["value"].to_numpy(float))
    if measure in ("images", "texts"):
        return Cell(f"{mean:.3f}" + ("" if math.isnan(sd) else f" ± {sd:.3f}"))
    text = format_percent(mean) + ("" if math.isnan(sd) else f" ± {format_percent(sd)}")
    change, low, high = (float(rows[name].iloc[0]) for name in ("change", "ci_low", "ci_high"))
    if math.isnan(change):
        return Cell(text)
    return Cell(text, f"{format_signed(change)} {format_interval(low, high, difference=True)}".strip())


def _build_figure(words: str, points: pd.DataFrame) -> FigureBlock:
    count = points["panel"].nunique()

    def draw_figure(theme: Theme) -> Figure:
        figure, panels = create_panel_grid(count, columns=2, width=9, height=4.2)
        draw_tradeoff(panels, words, points, colours=theme.series[1:], ink=theme.ink)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6))
        return figure

    caption = (
        "Gain against loss from the base (star, at the origin): up is a gain, left is a loss. A mark is the mean over "
        "training seeds, its bars one standard deviation; faint dots are runs. Dashed: models that no other model beats in both."
    )
    return FigureBlock(
        "gain_against_loss", render_figure(draw_figure), caption, "Gain in composition against forgetting."
    )
