"""Format for the terminal what `caramel metrics` computes of stored scores beside the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from caramel.crepe.binding_splits import SEEN, UNSEEN
from caramel.evaluation.rescoring.binding_figures import ANY
from caramel.report.terminal import align_columns


def format_binding_figures(figures: pd.DataFrame) -> str:
    """Return the figures over all instances: all, and the splits in which both sides are seen or unseen."""
    lines = [["model", "metric", "positive", "negative", "value", "95 % interval", "n"]]
    sides = figures[["positive", "negative"]]
    are_split = sides.isin([SEEN, UNSEEN]).all(axis=1) | (sides == ANY).all(axis=1)
    for row in (
        figures[are_split & (figures["subset"] == "all")]
        .sort_values(["model", "metric"], kind="stable")
        .to_dict("records")
    ):
        names = [str(row[name]) for name in ("model", "metric", "positive", "negative")]
        lines.append([*names, *_format_value(row, "value", "ci_low", "ci_high", ".1f"), str(row["n"])])
    return (
        f"By what the corpus holds of the compounds in which the captions differ:\n{align_columns(lines)}\n\n"
        f"In per cent. any: all results. binding.csv also has subsets, single sides, and captions without such a compound."
    )


def format_matching_gains(gains: pd.DataFrame) -> str:
    """Return a line for each model, wrapper and setting."""
    lines = [
        [
            "model",
            "wrapper",
            "setting",
            "value",
            "95 % interval",
            "gain",
            "95 % interval",
            "permuted gain",
            "n",
        ]
    ]
    for row in gains.to_dict("records"):
        names = [str(row[name]) for name in ("model", "wrapper", "setting")]
        value = _format_value(row, "value", "ci_low", "ci_high", ".1f")
        gain = _format_value(row, "gain", "gain_low", "gain_high", "+.1f")
        lines.append([*names, *value, *gain, f"{100 * row['permuted_gain']:+.1f}", str(row["n"])])
    return (
        f"Images that get their own caption (chance 50):\n{align_columns(lines)}\n\nIn per cent. A transductive figure "
        f"uses that each caption of a group belongs to one image. Do not compare it with other models' figures."
    )


def _format_value(row: Mapping[Any, Any], value: str, low: str, high: str, form: str) -> list[str]:
    """Return a value and its interval in per cent; dashes where there is none."""
    if pd.isna(row[value]):
        return ["–", "–"]
    ends = [format(100 * row[end], form) for end in (low, high)]
    return [format(100 * row[value], form), "–" if pd.isna(row[low]) else f"[{', '.join(ends)}]"]
