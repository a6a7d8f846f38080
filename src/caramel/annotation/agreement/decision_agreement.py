"""Agreement behind decisions: computed from the votes that table ``decisions`` holds, for the gate, the report and MLflow."""

from __future__ import annotations

import json
from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from caramel.annotation.agreement.coefficients import compute_agreement
from caramel.annotation.agreement.decision_files import DECISIONS_FILE, read_decisions
from caramel.runtime.mlflow import tracking
from caramel.schemas.io import hash_content
from caramel.utils.arrays import Ints
from caramel.utils.resampling import Bootstrap

IMAGE_TASKS = ("choose", "fits")  # tasks that decide which images are kept
BOOTSTRAP = Bootstrap(1000, 0)
DIGITS = 6


def summarise_decisions(
    folder: str, current: Container[tuple[str, str, str]], *, tasks: tuple[str, ...] = IMAGE_TASKS
) -> list[dict[str, Any]]:
    """Return one record per task and question of the decisions in a folder that hold for the current images.

    A record has ``task``, ``question``, ``guideline``, ``items``, ``outdated``, ``undecided``, ``annotators``,
    ``answers``, and ``krippendorff_alpha`` with ``ci_low``, ``ci_high`` and ``pairable`` (items with at least two
    answers). α needs only
    the votes of each item, and equals Fleiss' κ but for a correction of small samples. For task ``choose`` an answer is
    whether any candidate was chosen. An undefined value is None. Outdated decisions are counted, and nothing else is
    computed from them; a task that has no other decisions has no record.

    Args:
        folder: folder with table ``decisions``.
        current: task, item and content of what can be judged now. A decision on anything else is outdated.
        tasks: the tasks that are summarised.

    Raises:
        DataError: there are no such decisions.
    """
    decisions = read_decisions(folder, *tasks)
    keys = zip(decisions["task"], decisions["item_id"], decisions["content"], strict=True)
    is_current = pd.Series([key in current for key in keys], decisions.index)
    outdated = decisions[~is_current].groupby(["task", "question"]).size()
    records = []
    for (task, question), rows in decisions[is_current].groupby(["task", "question"], sort=True):
        votes = [json.loads(text) for text in rows["votes"]]
        if task == "choose":
            votes = [_merge_candidate_votes(counts) for counts in votes]
        agreement = compute_agreement(expand_votes(votes), "krippendorff", bootstrap=BOOTSTRAP)
        records.append(
            {
                "task": str(task),
                "question": str(question),
                "guideline": ", ".join(sorted(rows["guideline"].unique())),
                "items": len(rows),
                "outdated": int(outdated.get((task, question), 0)),
                "undecided": int(rows["decision"].isna().sum()),
                "annotators": len({name for names in rows["annotators"] for name in names}),
                "answers": sum(sum(counts.values()) for counts in votes),
                "krippendorff_alpha": _round(agreement.value),
                "ci_low": _round(agreement.low),
                "ci_high": _round(agreement.high),
                "pairable": agreement.items,
            }
        )
    return records


def log_agreement(folder: str, records: list[dict[str, Any]]) -> None:
    """Log the records of ``summarise_decisions`` as one MLflow run; the content of the decisions is the run's key."""
    import mlflow

    with tracking.run(
        "agreement",
        key=hash_content(Path(folder) / DECISIONS_FILE),
        params={f"guideline/{record['task']}": record["guideline"] for record in records},
        data=["data/synthesize"],
        tags={"stage": "filter_images"},
    ):
        for record in records:
            name = "/".join(filter(None, (record["task"], record["question"])))
            numbers = {key: value for key, value in record.items() if isinstance(value, int | float)}
            mlflow.log_metrics({f"{name}/{key}": float(value) for key, value in numbers.items()})
        mlflow.log_text(pd.DataFrame(records).to_csv(index=False), "agreement.csv")


def expand_votes(votes: list[dict[str, int]]) -> Ints:
    """Return counts of answers as codes (n, m), −1 for none; a row says nothing about who gave which answer."""
    categories = sorted({answer for counts in votes for answer in counts})
    most = max((sum(counts.values()) for counts in votes), default=0)
    codes = np.full((len(votes), most), -1, np.int64)
    for row, counts in zip(codes, votes, strict=True):
        given = [categories.index(answer) for answer, number in counts.items() for _ in range(number)]
        row[: len(given)] = given
    return codes


def _merge_candidate_votes(counts: dict[str, int]) -> dict[str, int]:
    """Return the votes for `none` and those for any candidate."""
    none = counts.get("none", 0)
    return {"none": none, "some": sum(counts.values()) - none}


def _round(value: float) -> float | None:
    return None if np.isnan(value) else round(value, DIGITS)
