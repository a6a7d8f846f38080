"""Sections on what a subtype can tell: base between a reader of words and an exact one, and what a linear probe reads of positions."""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.metrics import METRICS
from caramel.evaluation.results.bound_columns import BOUND_COLUMNS, CELLS, NOUN, PROBE_COLUMNS, RELATION, WORD
from caramel.evaluation.results.summary import parse_variant
from caramel.report.blocks import (
    MISSING,
    Block,
    Cell,
    NoteBlock,
    TableBlock,
    format_count,
    format_interval,
    format_percent,
)
from caramel.report.inputs import read_csv
from caramel.report.sections.model_rows import FORM, Row
from caramel.schemas.columns import SUBTYPES

TARGETS = {
    CELLS: "image: which two of the four cells are filled",
    NOUN: "image: in which cell a noun is",
    RELATION: "image: left, right, above or below, of two nouns in one row or column",
    WORD: "text: which relation word the caption says",
}


def build_bounds_section(data: Path) -> list[Block]:
    """Return by subtype Group of the base between its floor and its ceiling, and how many instances tell models apart."""
    rows = read_csv(data / "evaluate/bounds.csv", BOUND_COLUMNS)
    rows = rows[rows["benchmark"] == FORM]
    by_name = {str(row["subset"]): row for row in rows.to_dict("records")}
    names = [name for name in (*SUBTYPES, "without_add", "all") if name in by_name]
    lines = [[Cell(name), *_build_cells(by_name[name])] for name in names]
    note = (
        "Group in per cent; chance is "
        f"{format_percent(METRICS['group'].chance)}. Words without order: a reader that sees without an error which nouns, colours, sizes, positions and "
        "relations an image shows, and not what belongs to what. Exact reading: one that sees that, too. Both break ties at random. "
        "Base and a run differ: instances on which some fine-tuned run and the base disagree. Runs differ: on which two fine-tuned runs do. "
        "All other instances tell no model from another."
    )
    head = (
        "Subtype",
        "Instances",
        "Words without order",
        "base",
        "Exact reading",
        "Base and a run differ",
        "Runs differ",
    )
    return [TableBlock("", head, lines, note=note)]


def _build_cells(row: Row) -> list[Cell]:
    shares = [Cell(format_percent(float(row[name]))) for name in ("words", "base", "exact")]
    differ = [
        Cell(
            f"{format_count(row[name])} ({format_percent(row[name] / row['n'], 0)} %)"
            if row["n"]
            else MISSING
        )
        for name in ("base_differs", "runs_differ")
    ]
    return [Cell(format_count(row["n"])), *shares, *differ]


def build_probes_section(data: Path) -> list[Block]:
    """Return what linear probes read from the vectors of the base and of a run of each variant."""
    rows = read_csv(data / "evaluate/probes.csv", PROBE_COLUMNS)
    if rows.empty:
        return [NoteBlock("No scene is known, so that there is nothing to probe.", "skipped")]
    models = list(dict.fromkeys(rows["model"].astype(str)))
    rows_by_key = {(str(row["model"]), str(row["target"])): row for row in rows.to_dict("records")}
    lines = []
    for target, title in TARGETS.items():
        target_rows = [rows_by_key.get((model, target)) for model in models]
        known = [row for row in target_rows if row is not None]
        if known:
            sizes = [
                Cell(format_count(known[0]["n"])),
                Cell(format_percent(known[0]["chance"]), mark="muted"),
            ]
            lines.append([Cell(title), *sizes, *(_build_accuracy_cell(row) for row in target_rows)])
    note = (
        "Accuracy in per cent on test scenes of two objects; brackets: 95 % intervals. Coloured: the interval is above chance, which is "
        "the most frequent class. A probe is a ridge regression, judged on scenes that it was not fitted on (5 folds), its penalty "
        "chosen within the others. Each noun has a probe of its own; the relation follows from those of both nouns. Of each variant the "
        "first run is probed. Pixels: the positive control, mean colours of patches of the image."
    )
    head = ("What the probe reads", "Scenes", "chance", *(parse_variant(model) for model in models))
    return [TableBlock("", head, lines, note=note)]


def _build_accuracy_cell(row: Row | None) -> Cell:
    if row is None:
        return Cell(MISSING)
    above = row["ci_low"] > row["chance"]
    return Cell(
        format_percent(row["accuracy"]), format_interval(row["ci_low"], row["ci_high"]), "up" if above else ""
    )
