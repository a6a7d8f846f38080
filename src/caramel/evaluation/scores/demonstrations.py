"""Choose the demonstrations of a few-shot question, as SugarCrepe++ asks GPT-4o (Dumpala et al. 2024, E.4, Table 14).

The paper shows 4 or 8 answered questions "from the same subset" before the question. It does not publish which, in
which order or where their negative stands. Here they are the instances of the same subsets with the smallest hash of
their names, without the one that is asked about. So that a reply cannot follow from the place of the last negative,
the negative stands first, second and third in turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from itertools import cycle
from typing import Any, NamedTuple

import pandas as pd

from caramel.evaluation.scores.prompt_templates import ORDERS, list_captions
from caramel.evaluation.scores.published_wordings import PUBLISHED_WORDINGS, build_published_prompt


class Demonstration(NamedTuple):
    """A question that is shown with its right reply."""

    image: int  # index among the task's images
    prompt: str
    reply: str


def select_demonstrations(rows: pd.DataFrame, wording: str) -> Mapping[str, tuple[Demonstration, ...]]:
    """Return the demonstrations of each instance, by its name; none for a wording without shots.

    Args:
        rows: rows of a task of comparisons, all with two true captions and an image.
        wording: one of ``PUBLISHED_WORDINGS`` for which ``find_small_group`` finds nothing.
    """
    shots = PUBLISHED_WORDINGS[wording].shots
    if not shots:
        return {}
    chosen = {}
    for group in _group_rows(rows).values():
        first = sorted(group, key=lambda row: hashlib.sha256(row["instance_id"].encode()).digest())
        for row in group:
            others = [other for other in first[: shots + 1] if other is not row][:shots]
            chosen[row["instance_id"]] = tuple(
                _build_demonstration(other, wording, order)
                for other, order in zip(others, cycle(ORDERS["odd"]), strict=False)
            )
    return chosen


def find_small_group(rows: pd.DataFrame, wording: str) -> str | None:
    """Return why a wording cannot show its examples: which subsets have too few instances. None if it can."""
    shots = PUBLISHED_WORDINGS[wording].shots
    if not shots:
        return None
    for subsets, group in _group_rows(rows).items():
        if len(group) <= shots:
            return (
                f"its wording {wording!r} shows {shots} other instances of the same subsets before each question, and "
                f"{', '.join(subsets)} has {len(group)} in all. Use a higher --limit, or a wording without examples"
            )
    return None


def _group_rows(rows: pd.DataFrame) -> Mapping[tuple[str, ...], list[Mapping[Hashable, Any]]]:
    """Return the rows of each combination of subsets."""
    groups: dict[tuple[str, ...], list[Mapping[Hashable, Any]]] = {}
    for row in rows.to_dict("records"):
        groups.setdefault(tuple(row["subsets"]), []).append(row)
    return groups


def _build_demonstration(row: Mapping[Hashable, Any], wording: str, order: str) -> Demonstration:
    captions = list_captions(order, (row["caption"], row["caption2"]), row["negative_caption"])
    return Demonstration(row["image"], build_published_prompt(wording, captions), f"({order.index('N') + 1})")
