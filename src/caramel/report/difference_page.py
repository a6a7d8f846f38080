"""How two versions differ, as one HTML page that stands alone, with the pictures that came and went."""

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
        images: index of images -> "came" and "went" -> text and encoded file of some of them.
    """
    new, old = difference["new"], difference["old"]
    sections = [
        Section("params", "Parameters", "", parts.build_params_section(difference)),
        Section(
            "code",
            "Code",
            "Files that git has otherwise at the two commits.",
            parts.build_code_section(difference),
        ),
        Section("tables", "Tables", "Rows by their key.", parts.build_tables_section(difference)),
        Section(
            "pictures",
            "Pictures",
            "Some of those that came and went.",
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
