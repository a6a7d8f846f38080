"""Build the sections on how two versions differ: parameters, code, tables, images, metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from caramel.report.blocks import (
    Block,
    Cell,
    NoteBlock,
    SheetBlock,
    SheetRow,
    TableBlock,
    Thumbnail,
    format_interval,
    format_percent,
    format_signed,
)
from caramel.utils.stats import format_p

ShownImages = Mapping[str, Mapping[str, Sequence[tuple[str, bytes]]]]


def _build_empty_note(what: str) -> NoteBlock:
    return NoteBlock(f"No {what} differ.")


def build_params_section(difference: Mapping[str, Any]) -> list[Block]:
    """Return the parameters that differ."""
    rows = [[Cell(key), Cell(str(old)), Cell(str(new))] for key, (old, new) in difference["params"].items()]
    head = ["key", difference["old"], difference["new"]]
    return [TableBlock("", head, rows, labels=3) if rows else _build_empty_note("parameters")]


def build_code_section(difference: Mapping[str, Any]) -> list[Block]:
    """Return the files that differ between the two commits."""
    if difference["code"] is None:
        return [NoteBlock("git does not know both commits.")]
    rows = [[Cell(path)] for path in difference["code"]]
    table = TableBlock(f"{len(rows):,} files", ["file"], rows, folded=len(rows) > 20)
    return [table if rows else _build_empty_note("files of code")]


def build_tables_section(difference: Mapping[str, Any]) -> list[Block]:
    """Return how many rows of each table differ, by subtype and reason."""
    rows = [
        [Cell(t["path"], note=", ".join(f"{name} in {count:,}" for name, count in t["columns"].items())),
         *(Cell(f"{t[what]:,}") for what in ("added", "removed", "changed"))]
        for t in difference["tables"]
    ]  # fmt: skip
    rows += [
        [Cell(path, note=f"only in {difference[side]}"), *[Cell("")] * 3]
        for side in ("old", "new")
        for path in difference[f"only_{side}"]
    ]
    blocks: list[Block] = (
        [TableBlock("", ["table", "added", "removed", "changed"], rows)]
        if rows
        else [_build_empty_note("tables")]
    )
    for table in difference["tables"]:
        subtype_rows = [
            [Cell(name), Cell(f"{more:,}"), Cell(f"{less:,}")]
            for name, (more, less) in table["by_subtype"].items()
        ]
        why = [[Cell(reason), Cell(f"{count:,}")] for reason, count in table["reasons"].items()]
        if subtype_rows:
            blocks.append(
                TableBlock(f"{table['path']}, by subtype", ["subtype", "added", "removed"], subtype_rows)
            )
        if why:
            blocks.append(
                TableBlock(f"{table['path']}, why rows are gone", ["stage and reason", "rows"], why)
            )
    return blocks


def build_images_section(difference: Mapping[str, Any], images: ShownImages) -> list[Block]:
    """Return some of the images that only one of the two versions has."""
    sides = {"came": f"only in {difference['new']}", "went": f"only in {difference['old']}"}
    blocks: list[Block] = []
    for index, both in images.items():
        rows = [
            SheetRow(
                heading, f"{len(both[side])} shown", [Thumbnail(image, text) for text, image in both[side]]
            )
            for side, heading in sides.items()
            if both[side]
        ]
        if rows:
            blocks.append(SheetBlock(index, rows))
    return blocks or [_build_empty_note("images")]


def _restore_nan(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a metric with NaN for None, which stands for it in JSON."""
    return {name: float("nan") if value is None else value for name, value in row.items()}


def build_figures_section(difference: Mapping[str, Any]) -> list[Block]:
    """Return the metrics that both versions have, and their differences."""
    rows = [
        (row["subset"], [Cell(row["model"]), Cell(row["benchmark"]), Cell(row["subset"]), Cell(row["metric"]), Cell(format_percent(row["value_b"])),
         Cell(format_percent(row["value_a"])), Cell(format_signed(row["difference"]), note=format_interval(row["ci_low"], row["ci_high"], difference=True)),
         Cell(format_p(row["p_holm"], ".4f", least=row["p_least"], uncorrected=row["p"]))])
        for row in map(_restore_nan, difference["metrics"])
    ]  # fmt: skip
    head = [
        "model",
        "benchmark",
        "subset",
        "metric",
        difference["old"],
        difference["new"],
        "difference",
        "p (Holm)",
    ]
    over_all, by_subset = (
        [cells for subset, cells in rows if (subset == "all") == whole] for whole in (True, False)
    )
    note = (
        f"p (Holm): corrected over all {difference['metrics'][0]['tests']:,} figures that both versions have, over all models and benchmarks."
        if rows
        else ""
    )
    blocks: list[Block] = (
        [TableBlock("Over all instances", head, over_all, note=note, labels=4)] if over_all else []
    )
    if by_subset:
        blocks.append(
            TableBlock(
                f"By subset ({len(by_subset):,} figures)", head, by_subset, note=note, labels=4, folded=True
            )
        )
    return blocks or [_build_empty_note("figures of instances that both scored")]
