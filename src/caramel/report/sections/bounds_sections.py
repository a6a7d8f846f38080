"""Build the sections on headroom: base between a bag-of-words and an exact reader, and linear probes of positions."""

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
    NOUN: "image: the cell of a noun",
    RELATION: "image: left, right, above or below, for two nouns in one row or column",
    WORD: "text: the relation word of the caption",
}


def build_bounds_section(data: Path) -> list[Block]:
    """Return, by subtype, the base's Group between floor and ceiling, and how many instances separate models."""
    rows = read_csv(data / "evaluate/bounds.csv", BOUND_COLUMNS)
    rows = rows[rows["benchmark"] == FORM]
    by_name = {str(row["subset"]): row for row in rows.to_dict("records")}
    names = [name for name in (*SUBTYPES, "without_add", "all") if name in by_name]
    lines = [[Cell(name), *_build_cells(by_name[name])] for name in names]
    note = (
        "Group in per cent; chance is "
        f"{format_percent(METRICS['group'].chance)}. Words without order: a reader that knows exactly which nouns, colours, sizes, positions and "
        "relations an image shows, but not which belong together. Exact reading: a reader that knows this too. Both break ties at random. "
        "Base and a run differ: instances on which a fine-tuned run and the base disagree. Runs differ: instances on which two fine-tuned runs disagree. "
        "All other instances separate no two models."
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
    """Return what linear probes decode from the vectors of the base and of one run of each variant."""
    rows = read_csv(data / "evaluate/probes.csv", PROBE_COLUMNS)
    if rows.empty:
        return [NoteBlock("No scenes are known, so there is nothing to probe.")]
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
        "the most frequent class. A probe is a ridge regression, tested on held-out scenes (5 folds) with its penalty "
        "chosen on the training folds. Each noun has its own probe; the relation follows from the probes of both nouns. The "
        "first run of each variant is probed. Pixels: the positive control, mean colours of image patches."
    )
    head = ("Probe target", "Scenes", "chance", *(parse_variant(model) for model in models))
    return [TableBlock("", head, lines, note=note)]


def _build_accuracy_cell(row: Row | None) -> Cell:
    if row is None:
        return Cell(MISSING)
    above = row["ci_low"] > row["chance"]
    return Cell(
        format_percent(row["accuracy"]), format_interval(row["ci_low"], row["ci_high"]), "up" if above else ""
    )
