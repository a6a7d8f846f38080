"""A study as one HTML page that stands alone, and its outcome in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

from caramel.report.blocks import (
    Block,
    Cell,
    NoteBlock,
    Section,
    TableBlock,
    count,
    interval,
    percent,
    signed,
)
from caramel.report.rendering import render
from caramel.report.sections.claim_sections import verdict
from caramel.study.components import INSTANCES
from caramel.study.power import MOST

KINDS = {
    INSTANCES: "test instances, in all",
    "scenes": "draws of the scenes, in all",
    "generator": "generators per draw",
    "base": "bases per draw",
    "fine-tuning": "seeds of fine-tuning per generator and base",
    "scenes, one of each": "draws of the scenes, each with one generator, base and seed",
}
TITLES = {"accuracy": "SugarCrepe", "i2t": "I2T", "t2i": "T2I", "group": "Group"}
Row = Mapping[str, Any]


def claim(found: Row) -> str:
    """Return the outcome of the contrast in words."""
    one = found["contrast"]
    return (
        f"{verdict(one)}: {one['variant']} over {one['against']}, {TITLES[one['metric']]} on {one['subset']}, "
        f"{signed(one['mean'])} points {_between(one)}, p = {one['p']:.3g}. The interval counts scenes, instances, generator, "
        f"base and fine-tuning, by {len(found['draws'])} draws of the scenes; the rule is p < 0.05 of this one test. "
        f"{found['registration']['reason']}"
    )


def build_study_sections(found: Row) -> list[Section]:
    """Return what is told of ``study.json``, in the order of the page."""
    return [
        Section("claim", "The claim", found["registration"]["reason"], _claim(found)),
        Section(
            "components", "Where the spread comes from", "Variance components of one run.", _parts(found)
        ),
        Section("power", "Power", "What a study of another size would see.", _power(found)),
        Section("models", "Models", "The base and its variants over all cells.", _models(found["models"])),
        Section("others", "All other comparisons", "Explorations.", _others(found["exploratory"])),
    ]


def study_page(found: Row) -> str:
    """Return the page of what ``study.json`` holds."""
    cells = len(found["contrast"]["cells"])
    return render(
        "study.html",
        sections=build_study_sections(found),
        cards=[
            (f"{signed(found['contrast']['mean'])}", f"points {_between(found['contrast'])}"),
            (verdict(found["contrast"]).lower(), f"p = {found['contrast']['p']:.3g}"),
            (
                f"{percent(found['contrast']['power']['power'], 0)} %",
                f"power for {_points(found['effect'])} points",
            ),
        ],
        profile=found["profile"],
        commit=found["commit"],
        about=f"{cells} cells in {len(found['draws'])} draws of the scenes, {found['seeds']} seeds of fine-tuning in each.",
    )


def _between(row: Row) -> str:
    return interval(_or_nan(row["low"]), _or_nan(row["high"]), difference=True)


def _or_nan(value: float | None) -> float:
    return nan if value is None else value


def _points(effect: float) -> str:
    return f"{100 * effect:g}"


def _looked_at(found: Row) -> dict[str, Row]:
    """Return what components there are: of the contrast, and of it by compounds."""
    return {str(found["contrast"]["subset"]): found["contrast"], **found["compounds"]}


def _claim(found: Row) -> list[Block]:
    parts = _looked_at(found)
    places = [
        tuple(cell[kind] for kind in ("scenes", "generator", "base")) for cell in found["contrast"]["cells"]
    ]
    rows = []
    for number, place in enumerate(places):
        cells = [part["cells"][number] for part in parts.values()]
        labels = [Cell(str(each + 1)) for each in place]
        values = [Cell(signed(c["mean"]), f"{signed(c['min'])} to {signed(c['max'])}") for c in cells]
        rows.append([*labels, *values])
    head = ("Scenes", "Generator", "Base", *parts)
    note = (
        "Percentage points: mean over the seeds of fine-tuning, below it the least and the largest of them."
    )
    return [
        NoteBlock(claim(found), "good" if found["contrast"]["shown"] else "plain"),
        *_build_subtype_table(found),
        TableBlock("By cell", head, rows, note=note, labels=3),
    ]


def _build_subtype_table(found: Row) -> list[Block]:
    one = found["contrast"]
    lines = [
        [
            Cell(part["subtype"]),
            Cell(count(round(part["n"]))),
            *(Cell(percent(part[name])) for name in ("value_against", "value")),
            Cell(signed(part["difference"])),
            Cell(
                signed(part["part"]),
                interval(_or_nan(part["part_low"]), _or_nan(part["part_high"]), difference=True),
            ),
        ]
        for part in found["parts"]
    ]
    head = ("Subtype", "Instances", one["against"], one["variant"], "Difference", "Part of the claim")
    note = (
        f"{TITLES[one['metric']]} in per cent, differences in points; means over draws of the scenes. Part of the claim: the subtype's "
        "share of the instances times its difference; brackets: 95 % t interval over draws, not corrected."
    )
    return [TableBlock("By subtype", head, lines, note=note)] if lines else []


def _parts(found: Row) -> list[Block]:
    blocks: list[Block] = [
        TableBlock(
            f"Of {TITLES[found['contrast']['metric']]} on {subset}",
            ("Component", "Standard deviation", "Share"),
            [_part(part) for part in one["components"]],
            folded=number > 0,
            note=""
            if number
            else (
                "Percentage points; brackets: 95 % interval of the standard deviation, by simulated studies with normal effects; "
                "there is none of the scenes, whose few draws give no interval that holds the truth so often. "
                "Factors joined by + change together in this layout and cannot be told apart."
            ),
        )
        for number, (subset, one) in enumerate(_looked_at(found).items())
    ]
    return blocks


def _part(part: Row) -> list[Cell]:
    low, high = (_or_nan(part[end]) ** 0.5 for end in ("low", "high"))
    note = "estimate below 0, taken as 0" if part["truncated"] else ""
    size = Cell(percent(part["variance"] ** 0.5, 2), interval(low, high))
    return [Cell(part["name"], note), size, Cell(f"{percent(_or_nan(part['share']), 0)} %")]


def _power(found: Row) -> list[Block]:
    one = found["contrast"]
    generators, bases = ("/".join(str(pair[k]) for pair in found["draws"]) for k in (0, 1))
    now = (count(one["instances"]), str(len(found["draws"])), generators, bases, str(found["seeds"]), "–")
    rows = [
        [Cell(KINDS[kind]), Cell(have), Cell(_more_than(kind) if wanted is None else count(wanted))]
        for have, (kind, wanted) in zip(now, one["power"]["needed"].items(), strict=True)
    ]
    points = _points(found["effect"])
    note = (
        f"This study finds {points} points with a chance of {percent(one['power']['power'], 0)} %, and with one of 80 % "
        f"{percent(one['power']['detectable'])} points, if the components are as estimated. Each row changes one number alone."
    )
    return [TableBlock("", ("Of", "This study", f"Needed for {points} points at 80 %"), rows, note=note)]


def _more_than(kind: str) -> str:
    """Return what is said where no number that was looked at is enough."""
    return f"not with {count(MOST)}{' times as many' if kind == INSTANCES else ''}"


def _models(rows: Sequence[Row]) -> list[Block]:
    columns = list(dict.fromkeys((row["metric"], row["subset"]) for row in rows))
    found = {(row["variant"], row["metric"], row["subset"]): row for row in rows}
    lines = [
        [Cell(name), *(_figure(found[name, *column]) for column in columns)]
        for name in dict.fromkeys(row["variant"] for row in rows)
    ]
    head = ("Model", *(f"{TITLES[metric]}, {subset}" for metric, subset in columns))
    note = (
        "Per cent: mean ± standard deviation over draws of the scenes; brackets: 95 % t interval. Models of one cell share "
        "its luck, so intervals that overlap say nothing of their difference, which is tested above and below."
    )
    return [TableBlock("", head, lines, note=note)]


def _figure(row: Row) -> Cell:
    text = f"{percent(row['mean'])} ± {percent(_or_nan(row['sd']))}"
    return Cell(text, interval(_or_nan(row["low"]), _or_nan(row["high"])))


def _others(rows: Sequence[Row]) -> list[Block]:
    columns = list(dict.fromkeys((row["metric"], row["subset"]) for row in rows))
    lines: dict[str, dict[tuple[str, str], Cell]] = {}
    for row in rows:
        line = lines.setdefault(f"{row['variant']} − {row['against']}", {})
        line[row["metric"], row["subset"]] = Cell(
            signed(row["mean"]), _between(row), "best" if row["shown"] else ""
        )
    head = ("Difference", *(f"{TITLES[metric]}, {subset}" for metric, subset in columns))
    note = (
        f"Percentage points. Brackets: 95 % t interval over draws of the scenes, not corrected. Bold: p < 0.05 after Holm's "
        f"correction over the {len(rows)} comparisons of this table."
    )
    body = [[Cell(name), *(line.get(c, Cell("")) for c in columns)] for name, line in lines.items()]
    return [TableBlock("", head, body, note=note)]
