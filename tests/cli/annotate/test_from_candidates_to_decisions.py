"""From candidates to decisions that the stages read: the walk of docs/annotation.md, one command after another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from annotation_project import COUNT, write_project
from annotation_tasks import answer_of

from caramel.annotation.store import AnswerStore
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.io import read_table

Call = Callable[..., tuple[int, str, str]]


def judge(path: str, annotator: str, answer: Callable[[int], str]) -> None:
    """Answer all items of a task; ``answer`` gets the number of the pair."""
    store = AnswerStore(Path(path))
    while items := store.give_items(annotator, [], 1):
        item = items[0]
        values = {"answer": answer(int(item.item.item_id[1])), "order": item.format_order()}
        store.add_answer(answer_of(item.item.item_id, annotator, **values))
    store.close()


def test_what_people_chose_and_found_ambiguous_becomes_one_table_of_decisions(call: Call) -> None:
    write_project(Path("data"))

    def run(*arguments: str) -> None:
        code, _, error = call("annotate", *arguments)
        assert code == 0, error

    run("make", "choose", "--overlap", "2", "--out", "choose.db")
    judge("choose.db", "a", lambda n: "none" if n == 0 else str(n % 3))
    judge("choose.db", "b", lambda n: "none" if n == 0 else "0" if n == 1 else str(n % 3))
    run("answers", "choose.db", "--out", "choose.parquet")
    run("decide", "choose.parquet", "--out", "chosen.parquet")
    run("make", "fits", "--chosen", "chosen.parquet", "--overlap", "2", "--out", "fits.db")
    for annotator in ("a", "b"):
        judge("fits.db", annotator, lambda n: "both" if n == 2 else "positive")
    run("answers", "fits.db", "--out", "fits.parquet")
    run("agreement", "fits.parquet")
    run("decide", "choose.parquet", "fits.parquet", "--out", "inputs/annotations/decisions.parquet")

    rows = read_table(DECISIONS, "inputs/annotations/decisions.parquet")
    by_task = {
        task: dict(zip(of["item_id"], of["decision"], strict=True)) for task, of in rows.groupby("task")
    }
    chosen = by_task["choose"]
    assert not isinstance(chosen.pop("p1:replace_att"), str), "a tie"
    assert chosen == {f"p{n}:replace_att": "none" if n == 0 else str(n % 3) for n in (0, 2, 3, 4, 5)}
    assert by_task["fits"] == {f"p{n}:replace_att": "both" if n == 2 else "positive" for n in range(2, COUNT)}
