"""No item is given to an annotator twice, none is lost, and no answer is lost or doubled."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from inspect import signature
from pathlib import Path

import pytest
from annotation_tasks import answer_of, text_item, write_task

from caramel.annotation.answers import read_answers
from caramel.annotation.store import AnswerStore
from caramel.annotation.task_file import open_task_file
from caramel.errors import ConfigError, DataError, ResourceError
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.io import read_table, write_table


class Clock:
    """A monotonic clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def give(store: AnswerStore, annotator: str, *holding: str, count: int = 1) -> list[str]:
    return [item.item.item_id for item in store.give_items(annotator, holding, count + len(holding))]


def work(store: AnswerStore, annotator: str, most: int = 1000) -> list[str]:
    """Answer everything that an annotator gets."""
    seen: list[str] = []
    while len(seen) < most and (names := give(store, annotator)):
        store.add_answer(answer_of(names[0], annotator))
        seen += names
    return seen


def test_each_item_gets_the_overlap_that_was_asked_for(tmp_path: Path) -> None:
    store = AnswerStore(write_task(tmp_path / "t.db", [text_item(n) for n in range(30)], overlap=2))
    seen = [work(store, name) for name in ("a", "b", "c")]
    assert [len(names) for names in seen] == [30, 30, 0]
    assert set(seen[0]) == set(seen[1])
    assert store.measure_progress("a").state == "done"


def test_only_the_shared_items_get_the_overlap(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(n) for n in range(30)], overlap=2, shared=10)
    store = AnswerStore(path)
    for name in ("a", "b", "c"):
        work(store, name)
    assert sorted(Counter(read_answers(path)["item_id"]).values()) == [1] * 20 + [2] * 10


def test_an_item_that_is_out_is_given_to_nobody_else_until_it_expires(tmp_path: Path) -> None:
    clock = Clock()
    store = AnswerStore(write_task(tmp_path / "t.db", [text_item(1)], lease_minutes=10), clock)
    assert give(store, "a") == ["n001"]
    assert give(store, "b") == []
    assert store.measure_progress("b").state == "waiting"
    clock.now += 601
    assert give(store, "b") == ["n001"]
    assert give(store, "a") == [], "somebody else has it now"
    assert store.add_answer(answer_of("n001", "a")), "a late answer is not lost"
    assert store.add_answer(answer_of("n001", "b"))


def test_a_page_that_is_opened_again_gets_its_items_again_and_no_others(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(n) for n in range(9)])
    first = give(AnswerStore(path), "a", count=2)
    assert give(AnswerStore(path), "a", count=2) == first, "after a crash of the server"


def test_a_change_of_the_system_time_frees_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert signature(AnswerStore).parameters["clock"].default is time.monotonic
    store = AnswerStore(write_task(tmp_path / "t.db", [text_item(1)]))
    give(store, "a")
    for jump in (1e7, -1e7):
        monkeypatch.setattr("time.time", lambda jump=jump: 1.7e9 + jump)
        assert give(store, "b") == []


def test_after_a_boot_the_clock_starts_anew_and_items_come_back_in_time(tmp_path: Path) -> None:
    path, clock = write_task(tmp_path / "t.db", [text_item(1)], lease_minutes=10), Clock()
    give(AnswerStore(path, clock), "a")
    clock.now = 5.0
    store = AnswerStore(path, clock)
    store.extend_assignments()
    assert give(store, "b") == []
    clock.now += 601
    assert give(store, "b") == ["n001"]


def test_a_resend_and_a_second_answer_to_an_item_change_nothing(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(1)])
    store = AnswerStore(path)
    give(store, "a")
    assert store.add_answer(answer_of("n001", "a"))
    assert not store.add_answer(answer_of("n001", "a"))
    assert not store.add_answer(answer_of("n001", "a", answer_id="another tab", answer="negative"))
    assert read_answers(path)["answer"].tolist() == ["positive"]


def test_an_item_that_was_not_given_cannot_be_answered(tmp_path: Path) -> None:
    store = AnswerStore(write_task(tmp_path / "t.db", [text_item(1)]))
    with pytest.raises(DataError, match="not given to 'a'"):
        store.add_answer(answer_of("n001", "a"))


def test_undo_gives_the_item_again_and_a_resend_of_the_old_answer_does_not_count(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(n) for n in range(3)])
    store = AnswerStore(path)
    (name,) = work(store, "a", most=1)
    last = store.measure_progress("a").last_answer
    assert last == f"a-{name}"
    for _ in range(2):  # the reply to the first may have been lost
        again = store.undo_answer("a", last)
        assert again is not None
        assert again.item.item_id == name
    assert not store.add_answer(answer_of(name, "a")), "it is known, and stays withdrawn"
    assert len(read_answers(path)) == 0
    assert give(store, "a") == [name]
    assert store.add_answer(answer_of(name, "a", answer_id="second", answer="both"))
    assert read_answers(path)["answer"].tolist() == ["both"]
    assert store.undo_answer("a", last) is None, "it was answered again since"
    assert store.undo_answer("b", "second") is None, "it is another annotator's"
    assert read_answers(path)["answer"].tolist() == ["both"]


def test_a_repeated_undo_takes_back_one_answer(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(n) for n in range(3)])
    store = AnswerStore(path)
    first, second, third = work(store, "a")
    for _ in range(3):
        store.undo_answer("a", f"a-{third}")
    assert set(read_answers(path)["item_id"]) == {first, second}
    assert store.measure_progress("a").last_answer == f"a-{second}"


def test_a_skipped_item_goes_to_somebody_else_with_the_reason_kept(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(1)])
    store = AnswerStore(path)
    give(store, "a")
    store.add_answer(answer_of("n001", "a", answer=None, skipped="An image is broken"))
    assert give(store, "a") == []
    assert work(store, "b") == ["n001"]
    assert read_answers(path)["skipped"].dropna().tolist() == ["An image is broken"]


def test_who_fails_the_qualification_gets_no_items_and_who_passes_does(tmp_path: Path) -> None:
    items = [text_item(n, gold="positive" if n < 3 else None) for n in range(6)]
    path = write_task(tmp_path / "t.db", items, roles={f"n00{n}": "qualification" for n in range(3)})
    store = AnswerStore(path)
    assert set(give(store, "a", count=4)) == {"n000", "n001", "n002"}, "nothing ahead of the qualification"
    assert len(work(store, "a")) == 6
    for n, answer in enumerate(("positive", "negative", "negative")):
        names = give(store, "b")
        store.add_answer(answer_of(names[0], "b", answer=answer))
        assert store.measure_progress("b").last_answer is None
        assert store.undo_answer("b", f"b-{names[0]}") is None, f"answer {n} to the qualification stays"
    assert give(store, "b") == []
    assert store.measure_progress("b").state == "failed"


def test_gold_items_are_mixed_in_by_the_seed_and_every_annotator_gets_them(tmp_path: Path) -> None:
    items = [text_item(n, gold="positive" if n < 5 else None) for n in range(100)]
    roles = {f"n{n:03}": "gold" for n in range(5)}
    path = write_task(tmp_path / "t.db", items, roles=roles, gold_every=10, overlap=2)
    store = AnswerStore(path)
    seen = {name: work(store, name) for name in ("a", "b")}
    positions = {name: [n for n, item in enumerate(names) if item in roles] for name, names in seen.items()}
    assert positions["a"] != positions["b"], "no rhythm that could be learnt"
    assert all(len(ns) == 5 for ns in positions.values())
    gold = read_answers(path).groupby("item_id")["gold"].first()
    assert gold.notna().sum() == 5


def test_counters_and_order_do_not_tell_which_items_are_gold(tmp_path: Path) -> None:
    items = [text_item(n, gold="positive" if n < 8 else None) for n in range(48)]
    path = write_task(
        tmp_path / "t.db", items, roles={f"n{n:03}": "gold" for n in range(8)}, gold_every=4, seed=5
    )
    store, steps, seen = AnswerStore(path), [], []
    before = store.measure_progress("a")
    while names := give(store, "a", count=2):
        assert give(AnswerStore(path), "a", count=2) == names, "a reload changes no order"
        store.add_answer(answer_of(names[0], "a"))
        after = store.measure_progress("a")
        steps.append((after.answered - before.answered, after.stored - before.stored, after.wanted))
        seen.append(names[0])
        before = after
    assert sum(name < "n008" for name in seen[:-1]) >= 5
    assert set(steps[:30]) == {(1, 1, steps[0][2])}
    assert before.state == "done"
    assert before.stored == before.wanted


def test_only_a_server_renews_assignments_and_it_keeps_their_order(tmp_path: Path) -> None:
    path, clock = write_task(tmp_path / "t.db", [text_item(n) for n in range(3)], lease_minutes=10), Clock()
    store = AnswerStore(path, clock)
    (first,) = give(store, "a")
    clock.now += 300
    (second,) = give(store, "b")
    clock.now += 301
    AnswerStore(path, clock).close()  # an export beside the server
    assert set(give(store, "c", count=3)) >= {first}, "the holder has gone for more than ten minutes"
    assert give(store, "a") == [] or give(store, "a") != [first], "the item was passed on"
    store.extend_assignments()
    rows = store._connection.execute(
        "SELECT item_id, annotator FROM assignments ORDER BY given_at"
    ).fetchall()
    assert rows[:2] == [(first, "a"), (second, "b")]


def test_a_task_file_in_use_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(1)])
    store = AnswerStore(path)
    store._connection.execute("PRAGMA busy_timeout = 10")
    other = open_task_file(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ResourceError, match="Another process writes it"):
        give(store, "a")
    other.close()


def test_answers_keep_the_contract_of_their_table(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(n) for n in range(4)])
    store = AnswerStore(path)
    work(store, "a", most=3)
    give(store, "b")
    store.add_answer(answer_of(give(store, "b")[0], "b", answer=None, skipped="no", seconds=None))
    write_table(ANNOTATIONS, read_answers(path), tmp_path / "answers.parquet")
    rows = read_table(ANNOTATIONS, tmp_path / "answers.parquet")
    assert len(rows) == 4
    assert rows["guideline"].str.fullmatch("[0-9a-f]{16}").all()


def test_a_task_without_answers_gives_an_empty_table(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(1)])
    write_table(ANNOTATIONS, read_answers(path), tmp_path / "answers.parquet")
    assert len(read_table(ANNOTATIONS, tmp_path / "answers.parquet")) == 0


def test_a_task_file_is_not_overwritten_and_not_empty(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(1)])
    with pytest.raises(ConfigError, match="may hold answers"):
        write_task(path, [text_item(1)])
    with pytest.raises(DataError, match="no items to judge"):
        write_task(tmp_path / "none.db", [])
    with pytest.raises(DataError, match="'n001' occurs more than once"):
        write_task(tmp_path / "twice.db", [text_item(1), text_item(1)])
    assert not (tmp_path / "none.db").exists()


def test_no_item_key_looks_like_a_number(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(n) for n in range(50)])
    keys = [item.key for item in AnswerStore(path).list_exported_items()]
    assert len(set(keys)) == 50
    assert all(key[0].isalpha() for key in keys)


@pytest.mark.parametrize("content", [b"", b"not a database" * 100, None])
def test_what_is_no_task_file_is_an_error_that_says_how_to_make_one(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "t.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match="caramel annotate make"):
        open_task_file(path)


def test_a_task_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(1)])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'format'")
    connection.close()
    with pytest.raises(DataError, match="format '99'"):
        open_task_file(path)


def test_two_servers_of_one_task_give_no_item_twice(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(n) for n in range(20)])
    one, two = AnswerStore(path), AnswerStore(path)
    names = [name for _ in range(10) for name in (*give(one, "a", count=1), *give(two, "b", count=1))]
    for annotator, store in (("a", one), ("b", two)):
        assert store.measure_progress(annotator).state == "open"
    assert len(set(names)) == 2, "each has one item out, and gets it again"


def test_a_new_task_takes_no_answers_from_the_log_of_one_that_was_removed(tmp_path: Path) -> None:
    """SQLite would write the log of a killed server into the new file."""
    path = write_task(tmp_path / "t.db", [text_item(1)])
    (tmp_path / "t.db-wal").write_bytes(b"left by a killed server")
    path.unlink()
    with pytest.raises(ConfigError, match=r"t\.db-wal.* may hold answers"):
        write_task(path, [text_item(1)])
    assert not path.exists()
