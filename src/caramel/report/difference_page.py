"""How two versions differ, as one HTML page that stands alone, with the pictures that came and went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from caramel.report.blocks import (
    Block,
    Cell,
    NoteBlock,
    Section,
    SheetBlock,
    SheetRow,
    TableBlock,
    Thumb,
    interval,
    percent,
    signed,
)
from caramel.report.rendering import render
from caramel.utils.stats import format_p

Shown = Mapping[str, Mapping[str, Sequence[tuple[str, bytes]]]]


def difference_page(found: Mapping[str, Any], pictures: Shown) -> str:
    """Return the page.

    Args:
        found: of ``release.diff.Apart.as_json``.
        pictures: index of images -> "came" and "went" -> text and encoded file of some of them.
    """
    sections = [
        Section("params", "Parameters", "", [_params(found)]),
        Section("code", "Code", "Files that git has otherwise at the two commits.", [_code(found)]),
        Section("tables", "Tables", "Rows by their key.", _tables(found)),
        Section("pictures", "Pictures", "Some of those that came and went.", _pictures(found, pictures)),
        Section("figures", "Figures", "Paired on the instances that both versions scored; per cent, differences in points.", _figures(found)),
    ]  # fmt: skip
    cards = [
        (f"{sum(table[what] for table in found['tables']):,}", f"rows {what}")
        for what in ("added", "removed", "changed")
    ]
    return render("difference.html", sections=sections, cards=cards, old=found["old"], new=found["new"])


def _none(what: str) -> NoteBlock:
    return NoteBlock(f"No {what} differ.", "skipped")


def _params(found: Mapping[str, Any]) -> Block:
    rows = [[Cell(key), Cell(str(old)), Cell(str(new))] for key, (old, new) in found["params"].items()]
    return (
        TableBlock("", ["key", found["old"], found["new"]], rows, labels=3) if rows else _none("parameters")
    )


def _code(found: Mapping[str, Any]) -> Block:
    if found["code"] is None:
        return NoteBlock("git does not know both commits.", "skipped")
    rows = [[Cell(path)] for path in found["code"]]
    return (
        TableBlock(f"{len(rows):,} files", ["file"], rows, folded=len(rows) > 20)
        if rows
        else _none("files of code")
    )


def _tables(found: Mapping[str, Any]) -> list[Block]:
    rows = [
        [Cell(t["path"], note=", ".join(f"{name} in {count:,}" for name, count in t["columns"].items())),
         *(Cell(f"{t[what]:,}") for what in ("added", "removed", "changed"))]
        for t in found["tables"]
    ]  # fmt: skip
    rows += [
        [Cell(path, note=f"only in {found[side]}"), *[Cell("")] * 3]
        for side in ("old", "new")
        for path in found[f"only_{side}"]
    ]
    blocks: list[Block] = (
        [TableBlock("", ["table", "added", "removed", "changed"], rows)] if rows else [_none("tables")]
    )
    for table in found["tables"]:
        kinds = [
            [Cell(name), Cell(f"{more:,}"), Cell(f"{less:,}")]
            for name, (more, less) in table["by_subtype"].items()
        ]
        why = [[Cell(reason), Cell(f"{count:,}")] for reason, count in table["reasons"].items()]
        if kinds:
            blocks.append(TableBlock(f"{table['path']}, by subtype", ["subtype", "added", "removed"], kinds))
        if why:
            blocks.append(
                TableBlock(f"{table['path']}, why rows are gone", ["stage and reason", "rows"], why)
            )
    return blocks


def _pictures(found: Mapping[str, Any], pictures: Shown) -> list[Block]:
    sides = {"came": f"only in {found['new']}", "went": f"only in {found['old']}"}
    blocks: list[Block] = []
    for index, both in pictures.items():
        rows = [
            SheetRow(said, f"{len(both[side])} shown", [Thumb(image, text) for text, image in both[side]])
            for side, said in sides.items()
            if both[side]
        ]
        if rows:
            blocks.append(SheetBlock(index, rows))
    return blocks or [_none("pictures")]


def _figures(found: Mapping[str, Any]) -> list[Block]:
    rows = [
        (row["subset"], [Cell(row["model"]), Cell(row["benchmark"]), Cell(row["subset"]), Cell(row["metric"]), Cell(percent(row["value_b"])),
         Cell(percent(row["value_a"])), Cell(signed(row["difference"]), note=interval(row["ci_low"], row["ci_high"], difference=True)),
         Cell(format_p(row["p_holm"], ".4f", least=row["p_least"], uncorrected=row["p"]))])
        for row in found["metrics"]
    ]  # fmt: skip
    head = ["model", "benchmark", "subset", "metric", found["old"], found["new"], "difference", "p (Holm)"]
    over_all, by_subset = (
        [cells for subset, cells in rows if (subset == "all") == whole] for whole in (True, False)
    )
    note = (
        f"p (Holm): corrected over all {found['metrics'][0]['tests']:,} figures that both versions have, of all models and benchmarks."
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
    return blocks or [_none("figures of instances that both scored")]
