"""Sections on what is claimed: the comparison that was named beforehand, and all others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from caramel.evaluation.results.comparison import DIFFERENCE_COLUMNS
from caramel.evaluation.results.paired_hits import ALPHA
from caramel.report.blocks import Block, Cell, Mark, NoteBlock, TableBlock, interval, signed
from caramel.report.inputs import Skipped, read_csv
from caramel.report.sections.model_rows import MAIN, Row, keyed
from caramel.statistics import holm


def differences_section(data: Path, contrast: Mapping[str, str]) -> list[Block]:
    """Return paired differences between the variants and the base; all but the contrast are explorations."""
    rows = read_csv(data / "evaluate/differences.csv", DIFFERENCE_COLUMNS)
    if rows.empty:
        return [NoteBlock("Only one model was scored: there is nothing to compare.")]
    columns = [c for c in MAIN if c.subset in set(rows["subset"])]
    found = keyed(rows, "a", "b", "subset", "metric")
    pairs = dict.fromkeys(zip(rows["a"], rows["b"], strict=True))
    keys = [(a, b, c.subset, c.metric) for a, b in pairs for c in columns]
    others = [key for key in keys if not _is_contrast(key, contrast)]
    p = holm(np.array([found[key]["p"] for key in others], float))
    shown = dict(zip(others, p < ALPHA, strict=True))
    lines = [
        [
            Cell(f"{a} − {b}"),
            *(
                _difference_cell(found[a, b, c.subset, c.metric], shown.get((a, b, c.subset, c.metric)))
                for c in columns
            ),
        ]
        for a, b in pairs
    ]
    note = (
        "Percentage points on the same instances. Brackets: 95 % interval of the paired difference, over images "
        f"and training seeds, not corrected. Coloured: p < 0.05 after Holm's correction over the {len(others)} comparisons "
        "of this table but for the one that was named beforehand, which is marked."
    )
    head = ("Difference", *(c.title for c in columns))
    return [TableBlock("", head, lines, note=note)]


def _is_contrast(key: tuple[str, str, str, str], contrast: Mapping[str, str]) -> bool:
    """Return whether a difference, or its opposite, is the one that was named beforehand."""
    asked = {contrast["variant"], contrast["against"]}
    return {key[0], key[1]} == asked and key[2:] == (contrast["subset"], contrast["metric"])


def _difference_cell(row: Row, shown: bool | None) -> Cell:
    """Return the difference with its interval; ``shown`` is None for the contrast."""
    if shown is None:
        return Cell(signed(row["difference"]) + " (the claim)", _between(row), "muted")
    mark: Mark = ("up" if row["difference"] > 0 else "down") if shown else ""
    return Cell(signed(row["difference"]), _between(row), mark)


def _between(row: Mapping[Any, Any]) -> str:
    return interval(row["ci_low"], row["ci_high"], difference=True)


def claim_of(data: Path, contrast: Mapping[str, str]) -> dict[str, Any]:
    """Return the comparison that was named beforehand: its names, difference, interval, p and whether it is shown to be above 0.

    Args:
        data: the folder of the stages' outputs.
        contrast: variant, against, metric and subset.

    Raises:
        Skipped: nothing was evaluated, or not this.
    """
    rows = read_csv(data / "evaluate/differences.csv", DIFFERENCE_COLUMNS)
    for row in rows.dropna(subset=["difference", "p"]).to_dict("records"):
        if _is_contrast((row["a"], row["b"], row["subset"], row["metric"]), contrast):
            sign = 1 if row["a"] == contrast["variant"] else -1
            low, high = sorted((sign * row["ci_low"], sign * row["ci_high"]))
            numbers = {"difference": sign * row["difference"], "ci_low": low, "ci_high": high, "p": row["p"]}
            shown = row["p"] < ALPHA and numbers["difference"] > 0
            return {**contrast, **{k: round(n, 6) for k, n in numbers.items()}, "shown": shown}
    raise Skipped(
        f"{contrast['variant']} was not compared with {contrast['against']} by {contrast['metric']} on {contrast['subset']}"
    )


def verdict(found: Mapping[str, Any]) -> str:
    """Return what a test said of a claim that one model is better, in words; of its ``shown`` and its ``p``."""
    if found["shown"]:
        return "Shown"
    return "The opposite is shown" if found["p"] < ALPHA else "Not shown"


def claim_section(data: Path, contrast: Mapping[str, str]) -> list[Block]:
    """Return the claim in words."""
    found = claim_of(data, contrast)
    text = (
        f"{verdict(found)} of this run's models: {found['variant']} over {found['against']}, "
        f"{found['metric']} on {found['subset']}, {signed(found['difference'])} points {_between(found)}, p = {found['p']:.3g}. "
        "The rule is p < 0.05 of this one test. Interval and test count images and fine-tuning; scenes, generator and base "
        "have one seed each here. `caramel study` counts all of them."
    )
    return [NoteBlock(text, "good" if found["shown"] else "plain")]
