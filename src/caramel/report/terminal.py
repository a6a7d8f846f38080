"""Format tables for the terminal: metrics, comparisons, and aligned columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from caramel.errors import escape_unprintable
from caramel.report.whole_sets import find_partial_subsets, format_partial_subsets
from caramel.utils.stats import format_p

WIDEST = 40  # characters of a name


def format_metrics(metrics: pd.DataFrame) -> str:
    """Return table ``metrics`` by model and benchmark: subsets down, metrics across, in per cent.

    A cell is the value with its 95 % interval; a dash if nothing was scored.
    """
    parts = []
    for (model, benchmark), rows in metrics.groupby(["model", "benchmark"], sort=False):
        names = list(dict.fromkeys(rows["metric"]))
        cells = rows.set_index(["subset", "metric"])
        lines = [[f"{benchmark}", *names, "n", "ties", "unscored"]]
        for subset in dict.fromkeys(rows["subset"]):
            of_subset = [cells.loc[(subset, name)] for name in names if (subset, name) in cells.index]
            counts = (_format_range([row[c] for row in of_subset]) for c in ("n", "ties", "unscored"))
            cell_texts = {row.name[1]: _format_cell(row) for row in of_subset}
            lines.append([str(subset), *(cell_texts.get(name, "") for name in names), *counts])
        parts.append(f"{model}\n{align_columns(lines)}")
    notes = [
        "In per cent; 95 % intervals clustered on the image; ties count as misses.",
        *(
            ["Unscored: instances without a score, which are excluded from all figures."]
            if metrics["unscored"].any()
            else []
        ),
        *format_partial_subsets(find_partial_subsets(metrics)),
    ]
    return "\n\n".join([*parts, "\n".join(notes)])


def format_comparison(rows: pd.DataFrame, a: str, b: str) -> str:
    """Return the result of ``comparison.compare``, one line per benchmark, subset and metric."""
    head = [
        "benchmark",
        "subset",
        "metric",
        "A",
        "B",
        "A - B",
        "95 % interval",
        "p (Holm)",
        "effect g",
        "detectable",
        "n",
    ]
    lines = [head]
    for row in rows.to_dict("records"):
        mark = "*" if row["significant"] else " "
        lines.append(
            [
                *(str(row[name]) for name in ("benchmark", "subset", "metric")),
                *(_format_number(100 * row[name], ".1f") for name in ("value_a", "value_b")),
                f"{_format_number(100 * row['difference'], '+.1f')}{mark}",
                f"[{_format_number(100 * row['ci_low'], '+.1f')}, {_format_number(100 * row['ci_high'], '+.1f')}]",
                format_p(row["p_holm"], ".4f", least=row["p_least"], uncorrected=row["p"]),
                _format_number(row["effect"], "+.2f"),
                _format_number(100 * row["detectable"], ".1f"),
                str(row["n"]),
            ]
        )
    notes = [
        f"A: {a}",
        f"B: {b}",
        "In per cent. *: significant at 5 % after Holm correction. Detectable: the smallest difference that",
        "these instances would detect in four of five samples.",
        *format_partial_subsets(find_partial_subsets(rows)),
        *(f"Note: {note}" for note in rows.attrs.get("notes", [])),
    ]
    return "\n".join([align_columns(lines), "", *notes])


def format_errata_effect(moves: pd.DataFrame) -> str:
    """Return the result of ``errata_effect.compare_metrics``: a line for each figure with a touched instance."""
    lines = [["model", "subset", "metric", "before", "after", "difference", "touched", "n after"]]
    for row in moves[moves["touched"] > 0].to_dict("records"):
        values = [_format_number(100 * row[name], ".2f") for name in ("before", "after")]
        names = [str(row[name]) for name in ("model", "subset", "metric")]
        difference = _format_number(100 * row["difference"], "+.3f")
        lines.append([*names, *values, difference, str(row["touched"]), str(row["n_after"])])
    return f"{align_columns(lines)}\n\nIn per cent. Figures that are not listed do not move."


def _format_cell(row: pd.Series) -> str:
    if pd.isna(row["value"]):
        return "–"
    if pd.isna(row["ci_low"]):
        return f"{100 * row['value']:.1f}"
    return f"{100 * row['value']:.1f} [{100 * row['ci_low']:.1f}, {100 * row['ci_high']:.1f}]"


def _format_number(value: float, form: str) -> str:
    """Return a number, or a dash for NaN."""
    return "–" if math.isnan(value) else format(value, form)


def _format_range(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}–{high}"


def align_columns(lines: Sequence[Sequence[str]]) -> str:
    """Return the lines with aligned columns, the first left, the others right; long cells are cut."""
    cut = [[format_inline(cell) for cell in line] for line in lines]
    widths = [max(len(line[i]) for line in cut) for i in range(len(cut[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cut
    )


def format_inline(cell: str) -> str:
    """Return a text, possibly a user's, for one line: without control characters, and cut."""
    text = escape_unprintable(cell).replace("\n", "\\n")
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
