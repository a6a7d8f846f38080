"""Format agreement and annotators as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

MISSING = "–"


def format_agreement(agreement: pd.DataFrame) -> str:
    """Return the table of ``summarise_agreement`` as text."""
    rows = []
    for row in agreement.to_dict("records"):
        names = [name for name in (row["annotator_a"], row["annotator_b"]) if isinstance(name, str)]
        rows.append(
            [
                row["question"],
                row["measure"],
                " and ".join(names),
                _format_number(row["value"]),
                _format_ends(row["ci_low"], row["ci_high"]),
                row["items"],
            ]
        )
    text = format_columns(["question", "measure", "annotators", "value", "95 % interval", "items"], rows)
    if agreement["value"].isna().any():
        text += f"\n{MISSING}: undefined. No item has two answers, or all answers are the same."
    return text


def format_annotators(annotators: pd.DataFrame) -> str:
    """Return the table of ``describe_annotators`` as text."""
    rows = [
        [
            row["question"],
            row["annotator"],
            row["answered"],
            row["skipped"],
            f"{_format_number(row['kappa'])} {_format_ends(row['kappa_low'], row['kappa_high'])}".strip(),
            f"{_format_number(row['gold_accuracy'])} of {row['gold_items']}" if row["gold_items"] else "",
            _format_number(row["median_seconds"], 1),
            _format_number(row["first_share"]),
            " ".join(row["flags"]),
        ]
        for row in annotators.to_dict("records")
    ]
    head = [
        "question",
        "annotator",
        "answers",
        "skipped",
        "kappa with others",
        "gold",
        "seconds",
        "first",
        "flags",
    ]
    return format_columns(head, rows)


def format_columns(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows as text with aligned columns; columns without any text are left out."""
    texts = [[str(value) for value in row] for row in rows]
    column_indices = [index for index in range(len(head)) if any(row[index] for row in texts)]
    lines = [
        [head[index] for index in column_indices],
        *([row[index] for index in column_indices] for row in texts),
    ]
    widths = [max(len(line[index]) for line in lines) for index in range(len(column_indices))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _format_number(value: float, digits: int = 2) -> str:
    return MISSING if pd.isna(value) else f"{value:.{digits}f}"


def _format_ends(low: float, high: float) -> str:
    return "" if pd.isna(low) else f"[{low:.2f}, {high:.2f}]"
