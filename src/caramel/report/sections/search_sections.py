"""Build the section on fine-tuning: the settings that were tried and chosen, and the learning curves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.report.blocks import MISSING, Block, Cell, Mark, TableBlock, format_percent
from caramel.report.inputs import read_csv
from caramel.report.sections.model_sections import build_curves_section

COLUMNS = ("variant", "point", "setting", "seed", "metric", "value", "stopped", "repeatable", "chosen")


def build_finetune_section(data: Path) -> list[Block]:
    """Return the points of a search, if there was one, and the learning curves."""
    rows = read_csv(data / "finetune/searched.csv", COLUMNS)
    return [
        *([_build_search_table(rows)] if len(rows) else []),
        *build_curves_section(data / "finetune/curves.csv", "finetune"),
    ]


def _build_search_table(rows: pd.DataFrame) -> TableBlock:
    """Return a row for each point, with the chosen ones marked."""
    note = (
        "Per cent of the val rows, by the metric that selects the checkpoint: mean over the search's seeds, with each seed below. "
        "The best mean of a variant was selected (bold), among equals the first. So the figures of the chosen points are "
        "optimistic. The other sections use instances on which nothing was selected."
    )
    if not rows["repeatable"].all():
        note += (
            " Not reproducible: early stopping depended on the order in which trials arrived (ASHA). A stopped point "
            "shows its value at that step and was not trained with the other seeds."
        )
    cells = []
    for (variant, _), of in rows.groupby(["variant", "point"], sort=False):
        early, values = of["stopped"].dropna(), of["value"]
        ended = f"at checkpoint {int(early.iloc[0])}" if len(early) else MISSING
        per_seed = ", ".join(format_percent(value) for value in values) if len(values) > 1 else ""
        mark: Mark = "best" if of["chosen"].all() else ""
        setting = Cell(_format_point(json.loads(of["setting"].iloc[0])), mark=mark)
        mean = Cell(format_percent(float(values.mean())), per_seed, mark)
        cells.append([Cell(str(variant)), setting, mean, Cell(ended)])
    head = ("Variant", "Setting", str(rows["metric"].iloc[0]), "Ended early")
    return TableBlock("Settings that were tried", head, cells, note=note, labels=2)


def _format_point(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in point.items())
