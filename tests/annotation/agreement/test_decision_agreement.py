"""Agreement behind decisions is that of the decisions that hold."""

from pathlib import Path

import pandas as pd
from annotated import decided

from caramel.annotation.agreement.decision_agreement import summarise_decisions
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.io import write_table

CURRENT = {("choose", name, f"content-of-{name}") for name in "abcd"}


def write_decisions(folder: Path, *parts: pd.DataFrame) -> str:
    write_table(DECISIONS, pd.concat(parts), folder / "decisions.parquet")
    return str(folder)


def test_outdated_decisions_are_counted_and_change_no_agreement(tmp_path: Path) -> None:
    contents = {name: content for _, name, content in CURRENT}
    kept = [
        decided("choose", {"a": "0", "b": "none"}, contents=contents),
        decided("choose", {"c": None}, votes={"0": 1, "none": 1}, contents=contents),
    ]
    (alone,) = summarise_decisions(write_decisions(tmp_path, *kept), CURRENT)
    assert (alone["items"], alone["outdated"], alone["undecided"]) == (3, 0, 1)
    # d has other images now, e is none of this run's items
    other = decided(
        "choose", {"d": None, "e": None}, votes={"0": 1, "none": 1}, contents={"e": "content-of-e"}
    )
    (record,) = summarise_decisions(write_decisions(tmp_path, *kept, other), CURRENT)
    assert record == alone | {"outdated": 2}
    (wrong,) = summarise_decisions(str(tmp_path), CURRENT | {("choose", "d", "unknown")})
    assert wrong["krippendorff_alpha"] < alone["krippendorff_alpha"]


def test_a_task_of_outdated_decisions_alone_stops_no_gate(tmp_path: Path) -> None:
    rows = [
        decided("choose", {"a": "0"}, contents={"a": "content-of-a"}),
        decided("fits", {"a": "positive"}, contents={"a": "content-of-a"}),
    ]
    records = summarise_decisions(write_decisions(tmp_path, *rows), CURRENT)
    assert [record["task"] for record in records] == ["choose"]


def test_without_current_decisions_there_is_no_record(tmp_path: Path) -> None:
    assert summarise_decisions(write_decisions(tmp_path, decided("fits", {"a": "both"})), CURRENT) == []
