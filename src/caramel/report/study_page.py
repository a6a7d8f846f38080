"""A study as one HTML page that stands alone."""

from __future__ import annotations

from caramel.report.blocks import Section, format_percent, format_signed
from caramel.report.rendering import format_markup, render_page
from caramel.report.sections import study_sections as parts
from caramel.report.sections.claim_sections import format_verdict
from caramel.report.sections.study_sections import Row


def build_study_sections(study: Row) -> list[Section]:
    """Return what is told of ``study.json``, in the order of the page."""
    return [
        Section("claim", "The claim", study["registration"]["reason"], parts.build_claim_section(study)),
        Section(
            "components",
            "Where the spread comes from",
            "Variance components of one run.",
            parts.build_components_section(study),
        ),
        Section(
            "power", "Power", "What a study of another size would see.", parts.build_power_section(study)
        ),
        Section(
            "models",
            "Models",
            "The base and its variants over all cells.",
            parts.build_models_section(study["models"]),
        ),
        Section(
            "others",
            "All other comparisons",
            "Explorations.",
            parts.build_others_section(study["exploratory"]),
        ),
    ]


def render_study_page(study: Row) -> str:
    """Return the page of what ``study.json`` holds."""
    contrast, cells = study["contrast"], len(study["contrast"]["cells"])
    power = format_percent(contrast["power"]["power"], 0)
    return render_page(
        title=f"caramel study: {study['profile']}",
        heading="Does it hold with other seeds?",
        lead=format_markup(
            "Study of profile <b>{}</b> at commit <code>{}</code>: {}",
            study["profile"],
            study["commit"],
            f"{cells} cells in {len(study['draws'])} draws of the scenes, {study['seeds']} seeds of fine-tuning in each.",
        ),
        sections=build_study_sections(study),
        cards=[
            (format_signed(contrast["mean"]), f"points {parts.format_t_interval(contrast)}"),
            (format_verdict(contrast).lower(), f"p = {contrast['p']:.3g}"),
            (f"{power} %", f"power for {parts.format_points(study['effect'])} points"),
        ],
    )
