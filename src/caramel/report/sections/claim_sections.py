"""Build the sections on comparisons: the claim that opens the page, and all others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from caramel.evaluation.results.paired_tests import ALPHA
from caramel.report.blocks import Block, Cell, Mark, NoteBlock, TableBlock, format_interval, format_signed
from caramel.report.sections.claim_parts import (
    FORM_TITLES,
    build_forms_block,
    build_parts_block,
    has_parts,
    select_comparison,
)
from caramel.report.sections.model_rows import FORM, MAIN, SOURCE_FORM, Row, build_row_index, read_differences
from caramel.study.preregistration import Registration
from caramel.utils.stats import format_p, holm_correction


def build_differences_section(data: Path, primary_comparison: Mapping[str, str]) -> list[Block]:
    """Return the paired differences of variants and base in both forms.

    All except the claim are exploratory.
    """
    if read_differences(data, FORM).empty:
        return [NoteBlock("Only one model was scored, so there is nothing to compare.")]
    blocks: list[Block] = [_build_differences_table(data, FORM, primary_comparison)]
    if not read_differences(data, SOURCE_FORM).empty:
        blocks.append(_build_differences_table(data, SOURCE_FORM, None))
    return blocks


def _build_differences_table(
    data: Path, benchmark: str, primary_comparison: Mapping[str, str] | None
) -> TableBlock:
    """Return the differences of one form; the claim is marked and excluded from the Holm correction."""
    rows = read_differences(data, benchmark)
    columns = [c for c in MAIN if c.subset in set(rows["subset"])]
    differences = build_row_index(rows, "a", "b", "subset", "metric")
    pairs = dict.fromkeys(zip(rows["a"], rows["b"], strict=True))
    keys = [(a, b, c.subset, c.metric) for a, b in pairs for c in columns]
    others = [key for key in keys if primary_comparison is None or not _is_contrast(key, primary_comparison)]
    p = holm_correction(np.array([differences[key]["p"] for key in others], float))
    significant = dict(zip(others, p < ALPHA, strict=True))
    lines = [
        [
            Cell(f"{a} − {b}"),
            *(
                _build_difference_cell(
                    differences[a, b, c.subset, c.metric], significant.get((a, b, c.subset, c.metric))
                )
                for c in columns
            ),
        ]
        for a, b in pairs
    ]
    but = "" if primary_comparison is None else " except the claim at the top of the page, which is marked"
    error_note = (
        ""
        if primary_comparison is None
        else " The claim is tested separately at 5 %, so the chance of at least one false finding in the claim and this table is up to 10 %."
    )
    note = (
        "Percentage points on the same instances. Brackets: 95 % interval of the paired difference, over images "
        f"and training seeds, not corrected. Coloured: p < 0.05 after Holm correction over the {len(others)} comparisons "
        f"of this table{but}.{error_note}"
    )
    head = ("Difference", *(c.title for c in columns))
    return TableBlock(FORM_TITLES[benchmark], head, lines, note=note, folded=primary_comparison is None)


def _is_contrast(key: tuple[str, str, str, str], primary_comparison: Mapping[str, str]) -> bool:
    """Return whether a difference, or its opposite, is the claim."""
    models = {primary_comparison["variant"], primary_comparison["against"]}
    return {key[0], key[1]} == models and key[2:] == (
        primary_comparison["subset"],
        primary_comparison["metric"],
    )


def _build_difference_cell(row: Row, significant: bool | None) -> Cell:
    """Return the difference with its interval; ``shown`` is None for the claim."""
    if significant is None:
        return Cell(format_signed(row["difference"]) + " (the claim)", _format_interval(row), "muted")
    mark: Mark = ("up" if row["difference"] > 0 else "down") if significant else ""
    return Cell(format_signed(row["difference"]), _format_interval(row), mark)


def _format_interval(row: Mapping[Any, Any]) -> str:
    return format_interval(row["ci_low"], row["ci_high"], difference=True)


def compute_claim(data: Path, primary_comparison: Mapping[str, str]) -> dict[str, Any]:
    """Return the claim: its names, difference, interval, p, whether it is significantly above 0, and its parts by subtype.

    Args:
        data: the folder of the stages' outputs.
        primary_comparison: variant, against, metric and subset.

    Raises:
        StageSkipped: nothing was evaluated, or not this comparison.
    """
    comparison = select_comparison(data, primary_comparison, primary_comparison["subset"], FORM)
    is_significant = bool(comparison["p"] < ALPHA and comparison["difference"] > 0)
    return {**primary_comparison, **{k: round(n, 6) for k, n in comparison.items()}, "shown": is_significant}


def format_verdict(claim: Mapping[str, Any]) -> str:
    """Return a test's verdict, from its ``shown`` and ``p``, on the claim that one model is better."""
    if claim["shown"]:
        return "Shown"
    return "The opposite is shown" if claim["p"] < ALPHA else "Not shown"


def build_claim_section(
    data: Path, primary_comparison: Mapping[str, str], registration: Registration
) -> list[Block]:
    """Return the claim in words, whether it is confirmatory, its parts by subtype, and both forms."""
    claim = compute_claim(data, primary_comparison)
    text = (
        f"{format_verdict(claim)} of this run's models: {claim['variant']} over {claim['against']}, "
        f"{claim['metric']} on {claim['subset']}, {format_signed(claim['difference'])} points {_format_interval(claim)}, "
        f"p {format_p(claim['p'], '.3g', least=claim['p_least'], equals='= ')}. "
        "The rule is p < 0.05 of this one test. Interval and test cover the variation of images and fine-tuning; scenes, generator and base "
        "have one seed each here. `caramel study` covers all of them."
    )
    blocks: list[Block] = [
        NoteBlock(text, "good" if claim["shown"] and registration.confirmatory else "plain"),
        NoteBlock(registration.reason),
    ]
    if has_parts(primary_comparison):
        blocks.append(build_parts_block(data, primary_comparison))
    return [*blocks, build_forms_block(data, primary_comparison)]
