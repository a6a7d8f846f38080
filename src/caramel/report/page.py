"""Build the report: one self-contained HTML page, with its figures and key numbers as files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from caramel.io.files import format_csv, write_atomically, write_text
from caramel.report import changes
from caramel.report.blocks import Cell, FigureBlock, Section, TableBlock, format_interval, format_signed
from caramel.report.inputs import StageSkipped
from caramel.report.reading_order import Make, list_sections
from caramel.report.rendering import format_markup, render_page, shorten_names, shorten_value
from caramel.report.sections import claim_sections
from caramel.report.sections.statistics_section import compute_text_statistics
from caramel.schemas.columns import TYPES
from caramel.study.preregistration import Registration


@dataclass(frozen=True)
class Report:
    """The rendered page, figures (name -> PNG), key numbers, the claim if it was tested, and the texts' statistics as CSV."""

    html: str
    plots: Mapping[str, bytes]
    numbers: Mapping[str, float]
    claim: Mapping[str, Any] | None
    statistics: str


def build_report(
    data: Path,
    *,
    profile: str,
    commit: str,
    versions: Mapping[str, str],
    last: Path,
    examples: int,
    exempt: Sequence[str],
    primary_comparison: Mapping[str, str],
    registration: Registration,
    annotations: Path | None = None,
) -> Report:
    """Return the report on the stages' outputs under ``data``.

    Args:
        data: the folder of the stages' outputs.
        profile: name of the profile.
        commit: git commit of the code.
        versions: DVC hash by path.
        last: key numbers of the last report, if the file exists.
        examples: images on a contact sheet.
        exempt: types that refinement did not change.
        primary_comparison: variant, against, metric and subset of the comparison at the top of the page.
        registration: whether it is confirmatory, and why.
        annotations: folder of the human baseline; None: there is none.

    Raises:
        DataError: a file is missing or broken. A skipped stage is no error: its section states the reason.
    """
    numbers = changes.collect_key_numbers(data)
    changed = changes.build_changes_blocks(changes.read_last(last), numbers, profile)
    statistics = compute_text_statistics(data)
    parts = list_sections(
        data, examples, exempt, primary_comparison, registration, statistics, changed, annotations, versions
    )
    sections = _build_sections(parts)
    try:
        claim = claim_sections.compute_claim(data, primary_comparison)
    except StageSkipped:
        claim = None
    figures = [b for s in sections for b in s.blocks if isinstance(b, FigureBlock)]
    return Report(
        html=render_page(
            title=f"caramel report: {profile}",
            heading="caramel report",
            lead=format_markup("Profile <b>{}</b> at commit <code>{}</code>", profile, commit),
            sections=sections,
            cards=_build_cards(numbers, exempt, claim),
        ),
        plots={figure.name: figure.picture.light for figure in figures},
        numbers=numbers,
        claim=claim and {**claim, "confirmatory": registration.confirmatory},
        statistics=format_csv(statistics.map(shorten_value)),
    )


def _build_sections(parts: Sequence[tuple[str, str, str, Make]]) -> list[Section]:
    """Return the sections in reading order; one at the end lists those of skipped stages with the reason."""
    sections, empty = [], []
    for name, title, lead, make in parts:
        try:
            sections.append(Section(name, title, lead, make()))
        except StageSkipped as reason:
            empty.append((Cell(title), Cell(str(reason))))
    if empty:
        table = TableBlock("", ["section", "reason"], empty, labels=2)
        sections.append(
            Section("not-shown", "Not in this run", "What this run has nothing to show for.", [table])
        )
    return sections


def _build_cards(
    numbers: Mapping[str, float], exempt: Sequence[str], claim: Mapping[str, Any] | None
) -> list[tuple[str, str]]:
    """Return the available headline figures: (value, label)."""
    cards = []
    if instances := numbers.get("rows/instances test"):
        cards.append((f"{instances:,.0f}", "test instances"))
    refined = [t for t in TYPES if t not in exempt]
    blind = [
        numbers.get(f"blind accuracy after/{s} on {t}", 0.0) for s in _list_scorers(numbers) for t in refined
    ]
    if blind:
        cards.append(
            (f"{100 * max(blind):.1f} %", f"best blind scorer on {' or '.join(refined)} (chance 50)")
        )
    if "images/faithful share" in numbers:
        cards.append((f"{100 * numbers['images/faithful share']:.0f} %", "candidates judged faithful"))
    if claim is not None:
        size = f"{format_signed(claim['difference'])} {format_interval(claim['ci_low'], claim['ci_high'], difference=True)}"
        verdict = claim_sections.format_verdict(claim).lower()
        cards.append(
            (size, f"the claim, {verdict}: {claim['variant']} over {claim['against']}, {claim['metric']}")
        )
    return cards


def _list_scorers(numbers: Mapping[str, float]) -> list[str]:
    start = "blind accuracy after/"
    return [n.removeprefix(start).partition(" on ")[0] for n in numbers if n.startswith(start)]


def write_report(report: Report, folder: Path, *, last: Path, profile: str, commit: str) -> None:
    """Write ``report.html``, ``summary.json``, ``statistics.csv`` and ``plots/``.

    Remember the key numbers in ``last``.
    """
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    for stale in plots.glob("*.png"):
        stale.unlink()
    for name, png in report.plots.items():
        write_atomically(plots / f"{name}.png", partial(Path.write_bytes, data=png))
    write_text(folder / "report.html", report.html)
    write_text(folder / "statistics.csv", report.statistics)
    summary = {"profile": profile, "numbers": dict(report.numbers)}
    shortened = {
        "contrast": report.claim and {name: shorten_value(value) for name, value in report.claim.items()},
        "profile": shorten_value(profile),
        "numbers": shorten_names(report.numbers),
    }
    text = json.dumps(shortened, indent=2, sort_keys=True) + "\n"
    write_text(folder / "summary.json", text)
    remembered = json.dumps({**summary, "commit": commit}, indent=2, sort_keys=True) + "\n"
    write_text(last, remembered)
