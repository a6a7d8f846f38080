"""Build the audit page's section on tasks: strongest attackers, training sources, and the most exploitable subsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from caramel.audit.exploitability import format_source
from caramel.report.blocks import (
    MISSING,
    Block,
    Cell,
    TableBlock,
    format_count,
    format_interval,
    format_percent,
)
from caramel.report.inputs import get_number, get_value
from caramel.report.sections.audit_sections import BEST, WHERE, build_share_cell

NOTE_ON_HOLES = "Excess: (accuracy − chance) / (1 − chance), the share of the way from chance to always right, in per cent."


def build_tasks_section(audit: Mapping[str, Any]) -> list[Block]:
    """Return the best blind attacker's accuracy on each task from each source, the strongest scorer, and the largest holes."""
    subtypes = list(get_value(audit, BEST, "by_subtype", where=WHERE))
    table = []
    for attack in get_value(audit, "attacks", where=WHERE):
        best, first = get_value(attack, BEST, where=WHERE), get_value(attack, "strongest", where=WHERE)
        chance, taught = (get_number(attack, key, where=WHERE) for key in ("chance", "rows_learned_from"))
        parts = [best["by_subtype"].get(subtype) for subtype in subtypes]
        table.append(
            [
                Cell(str(attack["task"]), str(attack["asks"])),
                Cell(format_source(attack["source"]), f"{format_count(taught)} rows"),
                Cell(format_percent(chance)),
                build_share_cell(best["overall"], "micro", "", chance),
                *(
                    Cell(MISSING) if part is None else build_share_cell(part, "accuracy", "", chance)
                    for part in parts
                ),
                Cell(
                    format_percent(get_number(first, "micro", where=WHERE)),
                    str(first["scorer"]).replace("_", " "),
                ),
                Cell(f"{seconds:.1f}" if (seconds := get_number(first, "seconds", where=WHERE)) else MISSING),
            ]
        )
    head = ("Task", "Learned from", "chance", "all", *subtypes, "strongest", "seconds")
    note = (
        "Per cent, for all scorers combined and for the strongest single or combined scorer; tied texts share a hit. The strongest is "
        "selected on the reported accuracy, so the figure is optimistic."
    )
    return [
        TableBlock("", head, table, labels=2, note=note),
        _build_holes_table(get_value(audit, "holes", where=WHERE)),
    ]


def _build_holes_table(holes: Sequence[Mapping[str, Any]]) -> Block:
    """Return the table of holes."""
    table = []
    for hole in holes:
        chance, share, low, high, *excess = (
            get_number(hole, key, where=WHERE)
            for key in ("chance", "accuracy", "ci_low", "ci_high", "excess", "excess_low", "excess_high")
        )
        cells = [Cell(format_percent(chance)), Cell(format_percent(share), format_interval(low, high))]
        cells.append(
            Cell(
                format_percent(excess[0]),
                format_interval(excess[1], excess[2]),
                "bad" if excess[1] > 0 else "",
            )
        )
        table.append([Cell(str(hole["task"])), Cell(format_source(hole["source"])), *cells])
    head = ("Task", "Learned from", "chance", "accuracy", "excess")
    return TableBlock("Holes, the largest first", head, table, labels=2, note=NOTE_ON_HOLES)
