"""The papers' figures: rows of ``published.csv``, and their lines in the table of a benchmark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

from caramel.report.table_styles import Column, TableCell, TableLine

PUBLISHED_COLUMNS = (
    "model",
    "benchmark",
    "subset",
    "metric",
    "value",
    "paper",
    "table",
    "row",
    "score",
    "note",
)


class PublishedRows(NamedTuple):
    """The rows of ``published.csv`` that stand in a table, and those that are left out of it.

    Attributes:
        rows: the rows.
        incomparable: rows with a score type that no measured model has.
        incomplete: subsets with rows that were not measured completely.
    """

    rows: pd.DataFrame
    incomparable: pd.DataFrame
    incomplete: tuple[str, ...]


def read_published_rows() -> pd.DataFrame:
    """Return the papers' figures as ``PUBLISHED_COLUMNS``; value is per cent as text, as printed.

    Score is the score type behind the figure, named as in table ``similarities``; it is empty for people.
    """
    path = files("caramel.report") / "published.csv"
    with path.open("r", encoding="utf-8") as file:
        rows: pd.DataFrame = pd.read_csv(file, dtype=str, keep_default_na=False)
    return rows


def select_published_rows(
    benchmark: str, columns: Sequence[Column], complete: Collection[Column], score_types: Collection[str]
) -> PublishedRows:
    """Return the figures of a table's columns.

    Args:
        benchmark: its name.
        columns: of the table.
        complete: columns in which all measured models were scored on the whole released set.
        score_types: of the measured models; the same weights have other figures with their matching head than with
            the cosine of their projections. People have none and are always comparable.
    """
    rows = read_published_rows()
    rows = rows[rows["benchmark"] == benchmark]
    rows = rows.loc[[cell in columns for cell in _list_cells(rows)]]  # loc: also without rows
    whole = pd.Series([cell in complete for cell in _list_cells(rows)], rows.index, dtype=bool)
    comparable = rows["score"].isin(["", *score_types])
    left = {*rows["subset"][~whole]}
    incomplete = dict.fromkeys(subset for subset, _ in columns if subset in left)
    return PublishedRows(rows[whole & comparable], rows[whole & ~comparable], tuple(incomplete))


def _list_cells(rows: pd.DataFrame) -> list[Column]:
    return [*zip(rows["subset"], rows["metric"], strict=True)]


def build_published_lines(rows: pd.DataFrame, columns: Sequence[Column]) -> list[TableLine]:
    """Return a row for each model, paper and score type; of a cell's figures in several tables, the most exact."""
    lines = []
    for (model, paper, score), of_model in rows.groupby(["model", "paper", "score"], sort=False):
        by_digits = sorted(of_model.itertuples(), key=lambda row: len(str(row.value)))
        cells = {(row.subset, row.metric): row.value for row in by_digits}
        locations = dict.fromkeys(f"{row.table}, row {row.row}" for row in of_model.itertuples())
        source = f"{paper}: {'; '.join(locations)}{f' (by {score})' if score else ''}"
        lines.append(TableLine(str(model), tuple(TableCell(str(cells.get(c, "–"))) for c in columns), source))
    return lines


def read_line_values(lines: Sequence[TableLine], columns: Sequence[Column]) -> dict[str, dict[Column, float]]:
    """Return the shares in [0, 1] of published lines by column; lines of one name are told apart by their source."""
    names = [line.name for line in lines]
    return {
        line.name if names.count(line.name) == 1 else f"{line.name}, {line.source}": {
            column: float(cell.text) / 100
            for column, cell in zip(columns, line.cells, strict=True)
            if cell.text != "–"
        }
        for line in lines
    }


def list_published_notes(published: PublishedRows) -> list[str]:
    """Return the notes below a table: what its published rows are, and which were omitted."""
    notes = []
    if len(published.rows):
        notes.append("Rows with a source are copied from there and were not measured here.")
    if len(published.incomparable):
        names = ", ".join(sorted(published.incomparable["score"].unique()))
        notes.append(f"Omitted: published rows with score types that no measured model has: {names}.")
    if published.incomplete:
        notes.append(
            f"Omitted: published figures of sets that were not measured completely: {', '.join(published.incomplete)}."
        )
    noted = published.rows[published.rows["note"] != ""]
    for (paper, note), group in noted.groupby(["paper", "note"], sort=False):
        locations = [*dict.fromkeys(group["table"]), *dict.fromkeys(group["subset"])]
        notes.append(f"{paper}, {', '.join(locations)}: {note}.")
    return notes
