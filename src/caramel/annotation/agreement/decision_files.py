"""Find and read people's decisions and answers in the folder ``annotation.data_dir``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from caramel.annotation.content import hash_candidates
from caramel.errors import DataError, format_items
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.io import read_table

DECISIONS_FILE, BASELINE_FILE = "decisions.parquet", "baseline.parquet"


def read_decisions(folder: str, *tasks: str) -> pd.DataFrame:
    """Return the decisions of some tasks.

    Raises:
        DataError: the file is missing or broken, or has no decision of any of the tasks.
    """
    path = Path(folder) / DECISIONS_FILE
    if not path.is_file():
        raise DataError(
            f"{str(path)!r} is missing: people have decided nothing. Make items with `caramel annotate make {tasks[0]}`, "
            f"have them answered, and run `caramel annotate decide ANSWERS --out {path}`."
        )
    decisions = read_table(DECISIONS, path)
    selected = decisions[decisions["task"].isin(tasks)].reset_index(drop=True)
    if selected.empty:
        known = ", ".join(sorted(decisions["task"].unique())) or "none"
        raise DataError(
            f"{str(path)!r} has no decision of task {' or '.join(map(repr, tasks))}; its tasks: {known}. Give the answers "
            f"of all tasks to `caramel annotate decide` at once."
        )
    return selected


def find_outdated(decisions: pd.DataFrame, contents: Mapping[str, str]) -> list[str]:
    """Return the items, sorted, that people judged with other captions or images than the current ones.

    Args:
        decisions: rows of table ``decisions`` of one task.
        contents: current content of each item, as ``annotation.content`` computes it; other items are left out.
    """
    current = decisions["item_id"].map(contents)
    outdated = decisions.loc[current.notna() & (current != decisions["content"]), "item_id"]
    return sorted(outdated.unique())


def require_current_candidates(
    decisions: pd.DataFrame, candidates: pd.DataFrame, images: pd.DataFrame
) -> None:
    """Raise a DataError if decisions of task ``choose`` are on other candidates than the current ones.

    Args:
        decisions: rows of table ``decisions``.
        candidates: table ``candidates``.
        images: table ``images`` of the candidates.
    """
    if outdated := find_outdated(decisions, hash_candidates(candidates, images)):
        raise DataError(
            f"{len(outdated)} decisions are on other images or captions than the candidates:\n{format_items(outdated)}\nHave "
            "these items judged again: `caramel annotate make choose`."
        )
