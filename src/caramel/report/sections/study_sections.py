"""Build the sections of a study: its outcome in words, variance components, power, models, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

from caramel.report.blocks import (
    Block,
    Cell,
    NoteBlock,
    TableBlock,
    format_count,
    format_interval,
    format_percent,
    format_signed,
)
from caramel.report.sections.claim_sections import format_verdict
from caramel.study.components import INSTANCES
from caramel.study.power import MOST

UNITS = {
    INSTANCES: "test instances, total",
    "scenes": "draws of the scenes, total",
    "generator": "generators per draw",
    "base": "bases per draw",
    "fine-tuning": "fine-tuning seeds per generator and base",
    "scenes, one of each": "draws of the scenes, each with one generator, base and seed",
}
TITLES = {"accuracy": "SugarCrepe", "i2t": "I2T", "t2i": "T2I", "group": "Group"}
Row = Mapping[str, Any]


def format_claim(study: Row) -> str:
    """Return the outcome of the primary comparison in words."""
    one = study["contrast"]
    return (
        f"{format_verdict(one)}: {one['variant']} over {one['against']}, {TITLES[one['metric']]} on {one['subset']}, "
        f"{format_signed(one['mean'])} points {format_t_interval(one)}, p = {one['p']:.3g}. The interval covers scenes, instances, generator, "
        f"base and fine-tuning, over {len(study['draws'])} draws of the scenes; the rule is p < 0.05 of this one test. "
        f"{study['registration']['reason']}"
    )


def format_t_interval(row: Row) -> str:
    """Return the interval of a difference; nothing if there is none."""
    return format_interval(_replace_none(row["low"]), _replace_none(row["high"]), difference=True)


def _replace_none(value: float | None) -> float:
    return nan if value is None else value


def format_points(effect: float) -> str:
    """Return a fraction in percentage points."""
    return f"{100 * effect:g}"


def _collect_contrasts(study: Row) -> dict[str, Row]:
    """Return the available components: of the primary comparison, and of its parts by compounds."""
    return {str(study["contrast"]["subset"]): study["contrast"], **study["compounds"]}


def build_claim_section(study: Row) -> list[Block]:
    """Return the outcome, by subtype and by cell."""
    parts = _collect_contrasts(study)
    cell_indices = [
        tuple(cell[factor] for factor in ("scenes", "generator", "base"))
        for cell in study["contrast"]["cells"]
    ]
    rows = []
    for number, indices in enumerate(cell_indices):
        cells = [part["cells"][number] for part in parts.values()]
        labels = [Cell(str(index + 1)) for index in indices]
        values = [
            Cell(format_signed(c["mean"]), f"{format_signed(c['min'])} to {format_signed(c['max'])}")
            for c in cells
        ]
        rows.append([*labels, *values])
    head = ("Scenes", "Generator", "Base", *parts)
    note = "Percentage points: mean over the fine-tuning seeds, with the smallest and largest below."
    return [
        NoteBlock(format_claim(study), "good" if study["contrast"]["shown"] else "plain"),
        *_build_subtype_table(study),
        TableBlock("By cell", head, rows, note=note, labels=3),
    ]


def _build_subtype_table(study: Row) -> list[Block]:
    one = study["contrast"]
    lines = [
        [
            Cell(part["subtype"]),
            Cell(format_count(round(part["n"]))),
            *(Cell(format_percent(part[name])) for name in ("value_against", "value")),
            Cell(format_signed(part["difference"])),
            Cell(
                format_signed(part["part"]),
                format_interval(
                    _replace_none(part["part_low"]), _replace_none(part["part_high"]), difference=True
                ),
            ),
        ]
        for part in study["parts"]
    ]
    head = ("Subtype", "Instances", one["against"], one["variant"], "Difference", "Part of the claim")
    note = (
        f"{TITLES[one['metric']]} in per cent, differences in points; means over draws of the scenes. Part of the claim: the subtype's "
        "share of the instances times its difference; brackets: 95 % t interval over draws, not corrected."
    )
    return [TableBlock("By subtype", head, lines, note=note)] if lines else []


def build_components_section(study: Row) -> list[Block]:
    """Return the variance components of the primary comparison."""
    blocks: list[Block] = [
        TableBlock(
            f"Of {TITLES[study['contrast']['metric']]} on {subset}",
            ("Component", "Standard deviation", "Share"),
            [_build_component_row(part) for part in one["components"]],
            folded=number > 0,
            note=""
            if number
            else (
                "Percentage points; brackets: 95 % interval of the standard deviation, by simulated studies with normal effects. "
                "The scenes have no interval, because with few draws it would not reach its coverage. "
                "Factors joined by + change together in this layout and cannot be separated."
            ),
        )
        for number, (subset, one) in enumerate(_collect_contrasts(study).items())
    ]
    return blocks


def _build_component_row(part: Row) -> list[Cell]:
    low, high = (_replace_none(part[end]) ** 0.5 for end in ("low", "high"))
    note = "estimate below 0, taken as 0" if part["truncated"] else ""
    size = Cell(format_percent(part["variance"] ** 0.5, 2), format_interval(low, high))
    return [Cell(part["name"], note), size, Cell(f"{format_percent(_replace_none(part['share']), 0)} %")]


def build_power_section(study: Row) -> list[Block]:
    """Return the power of studies of other sizes."""
    one = study["contrast"]
    generators, bases = ("/".join(str(pair[k]) for pair in study["draws"]) for k in (0, 1))
    now = (
        format_count(one["instances"]),
        str(len(study["draws"])),
        generators,
        bases,
        str(study["seeds"]),
        "–",
    )
    rows = [
        [
            Cell(UNITS[unit]),
            Cell(have),
            Cell(_format_out_of_reach(unit) if wanted is None else format_count(wanted)),
        ]
        for have, (unit, wanted) in zip(now, one["power"]["needed"].items(), strict=True)
    ]
    points = format_points(study["effect"])
    note = (
        f"This study has a power of {format_percent(one['power']['power'], 0)} % for {points} points, and a power of 80 % for "
        f"{format_percent(one['power']['detectable'])} points, if the components are as estimated. Each row changes only one number."
    )
    return [TableBlock("", ("Of", "This study", f"Needed for {points} points at 80 %"), rows, note=note)]


def _format_out_of_reach(unit: str) -> str:
    """Return the text for a size that no searched number reaches."""
    return f"not with {format_count(MOST)}{' times as many' if unit == INSTANCES else ''}"


def build_models_section(rows: Sequence[Row]) -> list[Block]:
    """Return the metrics of every model over all cells."""
    columns = list(dict.fromkeys((row["metric"], row["subset"]) for row in rows))
    rows_by_key = {(row["variant"], row["metric"], row["subset"]): row for row in rows}
    lines = [
        [Cell(name), *(_build_cell(rows_by_key[name, *column]) for column in columns)]
        for name in dict.fromkeys(row["variant"] for row in rows)
    ]
    head = ("Model", *(f"{TITLES[metric]}, {subset}" for metric, subset in columns))
    note = (
        "Per cent: mean ± standard deviation over draws of the scenes; brackets: 95 % t interval. Models of one cell share "
        "its random draws, so overlapping intervals say nothing about their difference, which is tested above and below."
    )
    return [TableBlock("", head, lines, note=note)]


def _build_cell(row: Row) -> Cell:
    text = f"{format_percent(row['mean'])} ± {format_percent(_replace_none(row['sd']))}"
    return Cell(text, format_interval(_replace_none(row["low"]), _replace_none(row["high"])))


def build_others_section(rows: Sequence[Row]) -> list[Block]:
    """Return all comparisons except the claim."""
    columns = list(dict.fromkeys((row["metric"], row["subset"]) for row in rows))
    lines: dict[str, dict[tuple[str, str], Cell]] = {}
    for row in rows:
        line = lines.setdefault(f"{row['variant']} − {row['against']}", {})
        line[row["metric"], row["subset"]] = Cell(
            format_signed(row["mean"]), format_t_interval(row), "best" if row["shown"] else ""
        )
    head = ("Difference", *(f"{TITLES[metric]}, {subset}" for metric, subset in columns))
    note = (
        f"Percentage points. Brackets: 95 % t interval over draws of the scenes, not corrected. Bold: p < 0.05 after Holm "
        f"correction over the {len(rows)} comparisons of this table."
    )
    body = [[Cell(name), *(line.get(c, Cell("")) for c in columns)] for name, line in lines.items()]
    return [TableBlock("", head, body, note=note)]
