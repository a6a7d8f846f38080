"""Sections of a study: its outcome in words, where the spread comes from, power, models, comparisons."""

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
    INSTANCES: "test instances, in all",
    "scenes": "draws of the scenes, in all",
    "generator": "generators per draw",
    "base": "bases per draw",
    "fine-tuning": "seeds of fine-tuning per generator and base",
    "scenes, one of each": "draws of the scenes, each with one generator, base and seed",
}
TITLES = {"accuracy": "SugarCrepe", "i2t": "I2T", "t2i": "T2I", "group": "Group"}
Row = Mapping[str, Any]


def format_claim(study: Row) -> str:
    """Return the outcome of the contrast in words."""
    one = study["contrast"]
    return (
        f"{format_verdict(one)}: {one['variant']} over {one['against']}, {TITLES[one['metric']]} on {one['subset']}, "
        f"{format_signed(one['mean'])} points {format_t_interval(one)}, p = {one['p']:.3g}. The interval counts scenes, instances, generator, "
        f"base and fine-tuning, by {len(study['draws'])} draws of the scenes; the rule is p < 0.05 of this one test. "
        f"{study['registration']['reason']}"
    )


def format_t_interval(row: Row) -> str:
    """Return the interval of a difference; nothing where there is none."""
    return format_interval(_replace_none(row["low"]), _replace_none(row["high"]), difference=True)


def _replace_none(value: float | None) -> float:
    return nan if value is None else value


def format_points(effect: float) -> str:
    """Return a fraction in points."""
    return f"{100 * effect:g}"


def _collect_contrasts(study: Row) -> dict[str, Row]:
    """Return what components there are: of the contrast, and of it by compounds."""
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
    note = (
        "Percentage points: mean over the seeds of fine-tuning, below it the least and the largest of them."
    )
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
    """Return the variance components of the contrast."""
    blocks: list[Block] = [
        TableBlock(
            f"Of {TITLES[study['contrast']['metric']]} on {subset}",
            ("Component", "Standard deviation", "Share"),
            [_build_component_row(part) for part in one["components"]],
            folded=number > 0,
            note=""
            if number
            else (
                "Percentage points; brackets: 95 % interval of the standard deviation, by simulated studies with normal effects; "
                "there is none of the scenes, whose few draws give no interval that holds the truth so often. "
                "Factors joined by + change together in this layout and cannot be told apart."
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
    """Return what a study of another size would see."""
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
        f"This study finds {points} points with a chance of {format_percent(one['power']['power'], 0)} %, and with one of 80 % "
        f"{format_percent(one['power']['detectable'])} points, if the components are as estimated. Each row changes one number alone."
    )
    return [TableBlock("", ("Of", "This study", f"Needed for {points} points at 80 %"), rows, note=note)]


def _format_out_of_reach(unit: str) -> str:
    """Return what is said where no number that was looked at is enough."""
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
        "its luck, so intervals that overlap say nothing of their difference, which is tested above and below."
    )
    return [TableBlock("", head, lines, note=note)]


def _build_cell(row: Row) -> Cell:
    text = f"{format_percent(row['mean'])} ± {format_percent(_replace_none(row['sd']))}"
    return Cell(text, format_interval(_replace_none(row["low"]), _replace_none(row["high"])))


def build_others_section(rows: Sequence[Row]) -> list[Block]:
    """Return all comparisons but that of the claim."""
    columns = list(dict.fromkeys((row["metric"], row["subset"]) for row in rows))
    lines: dict[str, dict[tuple[str, str], Cell]] = {}
    for row in rows:
        line = lines.setdefault(f"{row['variant']} − {row['against']}", {})
        line[row["metric"], row["subset"]] = Cell(
            format_signed(row["mean"]), format_t_interval(row), "best" if row["shown"] else ""
        )
    head = ("Difference", *(f"{TITLES[metric]}, {subset}" for metric, subset in columns))
    note = (
        f"Percentage points. Brackets: 95 % t interval over draws of the scenes, not corrected. Bold: p < 0.05 after Holm's "
        f"correction over the {len(rows)} comparisons of this table."
    )
    body = [[Cell(name), *(line.get(c, Cell("")) for c in columns)] for name, line in lines.items()]
    return [TableBlock("", head, body, note=note)]
