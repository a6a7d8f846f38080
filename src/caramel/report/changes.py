"""Collect the report's key numbers, and list their changes since the last report."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from caramel.errors import DataError
from caramel.evaluation.results.forgetting import RETAINED_COLUMNS, RETENTION_MEASURES
from caramel.io.regular_files import read_plain_text
from caramel.report.blocks import Block, Cell, NoteBlock, TableBlock
from caramel.report.inputs import StageSkipped, get_number, read_csv, read_json
from caramel.report.sections.data_sections import read_blind_rows
from caramel.report.sections.model_rows import MAIN, read_variants
from caramel.schemas.columns import SPLITS, TYPES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS


def collect_key_numbers(data: Path) -> dict[str, float]:
    """Return the numbers that a reader would compare between two reports, by name.

    Skipped stages have none. Shares are fractions in [0, 1], to six decimals.

    Raises:
        DataError: a file is missing or broken.
    """
    parts: list[Callable[[Path], dict[str, float]]] = [
        _count_rows,
        _collect_blind,
        _collect_image_yields,
        _collect_model_scores,
        _collect_retention,
    ]
    numbers: dict[str, float] = {}
    for part in parts:
        try:
            numbers |= part(data)
        except StageSkipped:
            continue
    return {name: round(n, 6) for name, n in numbers.items() if not math.isnan(n)}


def _count_rows(data: Path) -> dict[str, float]:
    pairs = read_table(PAIRS, data / "scenes/pairs.parquet", ["split"])
    refined = read_table(NEGATIVES, data / "refine/negatives.parquet", ["subtype"])
    instances = read_table(INSTANCES, data / "assemble/instances.parquet", ["split"])
    counts = {"rows/pairs": len(pairs), "rows/refined negatives": len(refined)}
    counts |= {f"rows/instances {s}": int((instances["split"] == s).sum()) for s in SPLITS}
    return {name: float(n) for name, n in counts.items()}


def _collect_blind(data: Path) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for stage, word in (("scores", "before"), ("refine", "after")):
        rows = read_blind_rows(data / stage / "blind.json")
        rows = rows[rows["subset"].isin(("all", *TYPES))]
        for scorer, subset, accuracy in zip(rows["scorer"], rows["subset"], rows["accuracy"], strict=True):
            numbers[f"blind accuracy {word}/{scorer} on {subset}"] = float(accuracy)
    return numbers


def _collect_image_yields(data: Path) -> dict[str, float]:
    path = data / "filter_images/metrics.json"
    raw = read_json(path)
    return {
        "images/faithful share": get_number(raw, "candidates", "faithful", where=path),
        "images/negatives kept": get_number(raw, "negatives", "kept", where=path),
    }


def _collect_model_scores(data: Path) -> dict[str, float]:
    variants = read_variants(data).set_index(["variant", "subset", "metric"])["mean"]
    names = dict.fromkeys(variants.index.get_level_values("variant"))
    return {f"{c.title}/{name}": float(variants[name, c.subset, c.metric]) for name in names for c in MAIN}


def _collect_retention(data: Path) -> dict[str, float]:
    rows = read_csv(data / "evaluate/retained.csv", RETAINED_COLUMNS)
    return {
        f"{RETENTION_MEASURES[str(measure)].title}/{name}": float(of["value"].mean())
        for (measure, name), of in rows[rows["measure"].isin(RETENTION_MEASURES)].groupby(
            ["measure", "variant"]
        )
    }


def read_last(path: Path) -> dict[str, Any] | None:
    """Return the last report's ``profile``, ``commit`` and ``numbers``, or None if there was none.

    Raises:
        DataError: the file is broken.
    """
    if not path.exists():
        return None
    try:
        last = json.loads(read_plain_text(path))
        return {"profile": last["profile"], "commit": last["commit"], "numbers": dict(last["numbers"])}
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is broken ({error!r}). Remove it: it only holds the last report.") from error


def build_changes_blocks(
    last: Mapping[str, Any] | None, numbers: Mapping[str, float], profile: str
) -> list[Block]:
    """Return old → new for every key number that changed."""
    if last is None:
        return [NoteBlock("This is the first report here, so there is nothing to compare with.")]
    if last["profile"] != profile:
        text = f"The last report was of profile {last['profile']!r}, which is another experiment."
        return [NoteBlock(text)]
    old: Mapping[str, float] = last["numbers"]
    names = [n for n in dict.fromkeys([*numbers, *old]) if old.get(n) != numbers.get(n)]
    if not names:
        return [NoteBlock(f"All {len(numbers)} key figures are unchanged since the last report.")]
    rows = [
        [
            Cell(name.replace("/", ": ")),
            Cell(_format_value(name, old.get(name))),
            Cell(_format_value(name, numbers.get(name))),
        ]
        for name in names
    ]
    same = len({*numbers, *old}) - len(names)
    note = f"Last report: commit {last['commit'][:12]}. {same} further figures did not change."
    return [TableBlock("Old → new", ("Figure", "last report", "this report"), rows, note=note)]


def _format_value(name: str, value: float | None) -> str:
    """Return a count unchanged, a share in per cent, and a dash for none."""
    if value is None:
        return "–"
    is_count = name.startswith("rows/") or name == "images/negatives kept"
    return f"{value:,.0f}" if is_count else f"{100 * value:.1f} %"
