"""Render the differences of two versions as one self-contained HTML page with added and removed images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from caramel.report.blocks import Section
from caramel.report.rendering import format_markup, render_page
from caramel.report.sections import difference_sections as parts


def render_difference_page(difference: Mapping[str, Any], images: parts.ShownImages) -> str:
    """Return the page.

    Args:
        difference: of ``release.diff.VersionDiff.to_dict``.
        images: image index -> "came" and "went" -> text and encoded file of some images.
    """
    new, old = difference["new"], difference["old"]
    sections = [
        Section("params", "Parameters", "", parts.build_params_section(difference)),
        Section(
            "code",
            "Code",
            "Files that differ between the two commits.",
            parts.build_code_section(difference),
        ),
        Section("tables", "Tables", "Rows by their key.", parts.build_tables_section(difference)),
        Section(
            "pictures",
            "Images",
            "A sample of the added and removed images.",
            parts.build_images_section(difference, images),
        ),
        Section(
            "figures",
            "Figures",
            "Paired on the instances that both versions scored; per cent, differences in points.",
            parts.build_figures_section(difference),
        ),
    ]
    cards = [
        (f"{sum(table[what] for table in difference['tables']):,}", f"rows {what}")
        for what in ("added", "removed", "changed")
    ]
    return render_page(
        title=f"{new} against {old}",
        heading="What changed",
        lead=format_markup("Version <code>{}</code> against <code>{}</code>.", new, old),
        sections=sections,
        cards=cards,
    )
