"""Section of the audit page on its tasks: who attacks them, where they learned, and which hole is the largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from caramel.audit.exploitability import format_source
from caramel.report.blocks import MISSING, Block, Cell, TableBlock, count, interval, percent
from caramel.report.inputs import number, value
from caramel.report.sections.audit_sections import BEST, WHERE, share_cell

NOTE_ON_HOLES = "Excess: (accuracy − chance) / (1 − chance), the share of the way from chance to always right, in per cent."


def tasks_section(audit: Mapping[str, Any]) -> list[Block]:
    """Return how the best blind attacker does on each task, from each source; who is strongest, and the largest holes."""
    subtypes = list(value(audit, BEST, "by_subtype", where=WHERE))
    table = []
    for found in value(audit, "attacks", where=WHERE):
        best, first = value(found, BEST, where=WHERE), value(found, "strongest", where=WHERE)
        chance, taught = (number(found, key, where=WHERE) for key in ("chance", "rows_learned_from"))
        parts = [best["by_subtype"].get(subtype) for subtype in subtypes]
        table.append(
            [
                Cell(str(found["task"]), str(found["asks"])),
                Cell(format_source(found["source"]), f"{count(taught)} rows"),
                Cell(percent(chance)),
                share_cell(best["overall"], "micro", "", chance),
                *(
                    Cell(MISSING) if part is None else share_cell(part, "accuracy", "", chance)
                    for part in parts
                ),
                Cell(percent(number(first, "micro", where=WHERE)), str(first["scorer"]).replace("_", " ")),
                Cell(f"{seconds:.1f}" if (seconds := number(first, "seconds", where=WHERE)) else MISSING),
            ]
        )
    head = ("Task", "Learned from", "chance", "all", *subtypes, "strongest", "seconds")
    note = (
        "Per cent, of all scorers together, and of the strongest of them and all; texts that tie share a hit. The strongest is "
        "chosen by the figure that is shown, which flatters it."
    )
    return [
        TableBlock("", head, table, labels=2, note=note),
        _holes_block(value(audit, "holes", where=WHERE)),
    ]


def _holes_block(found: Sequence[Mapping[str, Any]]) -> Block:
    """Return the table of holes."""
    table = []
    for hole in found:
        chance, share, low, high, *excess = (
            number(hole, key, where=WHERE)
            for key in ("chance", "accuracy", "ci_low", "ci_high", "excess", "excess_low", "excess_high")
        )
        cells = [Cell(percent(chance)), Cell(percent(share), interval(low, high))]
        cells.append(Cell(percent(excess[0]), interval(excess[1], excess[2]), "bad" if excess[1] > 0 else ""))
        table.append([Cell(str(hole["task"])), Cell(format_source(hole["source"])), *cells])
    head = ("Task", "Learned from", "chance", "accuracy", "excess")
    return TableBlock("Holes, the largest first", head, table, labels=2, note=NOTE_ON_HOLES)
