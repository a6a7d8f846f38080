"""Give out items and store answers: no item twice to one annotator, no answer lost or doubled.

Every call is one transaction on the task file (WAL, synchronous=FULL), so that an answer is on the disk before the reply
that acknowledges it. Assignments expire by the monotonic clock: a change of the system's time neither frees nor holds
items.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from caramel.annotation.items import Item, OrderedItem, order_item, parse_item
from caramel.annotation.task_file import TaskSettings, open_task_file, read_items, read_settings
from caramel.errors import DataError, ResourceError
from caramel.utils.hashing import compute_stable_keys

_ANSWERED = "SELECT 1 FROM answers a WHERE a.item_id = i.item_id AND a.annotator = :me AND NOT a.withdrawn"
_OUT = "SELECT 1 FROM assignments o WHERE o.item_id = i.item_id AND o.annotator = :me"
# Items that were given out before and not answered come first: after a reload or a crash, and after expiry.
_RESUME = f"""SELECT i.item_id FROM items i JOIN assignments o ON o.item_id = i.item_id AND o.annotator = :me
    WHERE (i.role <> 'item' OR i.answered + (SELECT count(*) FROM assignments x WHERE x.item_id = i.item_id
        AND x.annotator <> :me AND x.given_at > o.given_at AND x.given_at > :live) < i.overlap)
    AND NOT EXISTS ({_ANSWERED}) ORDER BY i.role <> 'qualification', o.given_at, i.position"""
_OF_ROLE = f"""SELECT i.item_id FROM items i WHERE i.role = :role AND NOT EXISTS ({_ANSWERED}) AND NOT EXISTS ({_OUT})
    ORDER BY i.position"""
# Items with some answers come first, so that those that are complete grow in number.
_FRESH = f"""SELECT i.item_id FROM items i WHERE i.role = 'item' AND i.answered < i.overlap
    AND i.answered + (SELECT count(*) FROM assignments x WHERE x.item_id = i.item_id AND x.given_at > :live) < i.overlap
    AND NOT EXISTS ({_ANSWERED}) AND NOT EXISTS ({_OUT}) ORDER BY i.answered DESC, i.position LIMIT 1"""
# Items that only others hold: they come back when answered or expired.
_WAITING = f"SELECT 1 FROM items i WHERE i.role = 'item' AND i.answered < i.overlap AND NOT EXISTS ({_ANSWERED}) LIMIT 1"
_LAST = """SELECT answer_id FROM answers a JOIN items i ON i.item_id = a.item_id
    WHERE a.annotator = ? AND NOT withdrawn AND role <> 'qualification' ORDER BY number DESC LIMIT 1"""
CURES = {
    "database or disk is full": "Free some space there.",
    "database is locked": "Another process writes it. Try again.",
}


@dataclass(frozen=True)
class Answer:
    """One answer as it comes from an annotator; exactly one of answer and skipped is set."""

    answer_id: str  # made by the client: a resend has the same one
    item_id: str
    annotator: str
    answer: str | None
    skipped: str | None
    seconds: float | None
    order: str  # JSON; column `order` of table `annotations`
    answered_at: str | None = None  # None: now


@dataclass(frozen=True)
class Progress:
    """What an annotator has done, and the whole task."""

    answered: int  # answers of this annotator, skipped ones included
    stored: int  # answers that count, of all annotators; to gold items, too, which would show otherwise
    wanted: int  # with gold items: about
    last_answer: str | None  # answer_id of the one that undo would withdraw
    state: str  # open, waiting (others hold the rest), done, or failed (the qualification)


class AnswerStore:
    """The answers of one task file, for any number of threads."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the task file.

        Args:
            clock: seconds that only grow.

        Raises the errors of ``open_task_file``.
        """
        self.path, self._clock, self._lock = path, clock, threading.Lock()
        self._connection = open_task_file(path)
        self.settings = read_settings(self._connection)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def extend_assignments(self) -> None:
        """Let the assignments of an earlier server count from now on, in their order: its clock may be another boot's."""
        with self._begin_transaction() as database:
            (latest,) = database.execute("SELECT max(given_at) FROM assignments").fetchone()
            if latest is not None:
                database.execute("UPDATE assignments SET given_at = given_at + ?", (self._clock() - latest,))

    def give_items(self, annotator: str, holding: Collection[str], count: int) -> list[OrderedItem]:
        """Return further items for an annotator, and note that they are out.

        Args:
            holding: items that the annotator's page has already.
            count: number of items that the page shall have in all.
        """
        with self._begin_transaction() as database:
            if _has_failed(database, annotator, self.settings.pass_mark):
                return []
            names: list[str] = []
            while len(holding) + len(names) < count:
                name = self._find_next(database, annotator, {*holding, *names})
                if name is None:
                    break
                database.execute(
                    "INSERT OR REPLACE INTO assignments VALUES (?, ?, ?)", (name, annotator, self._clock())
                )
                names.append(name)
            return [self._order(database, name, annotator) for name in names]

    def list_exported_items(self) -> list[Item]:
        """Return the items to be judged, gold items among them, in the task's order."""
        with self._lock:
            return read_items(self._connection)

    def find_item_ids(self, item_keys: Collection[str]) -> list[str]:
        """Return the item_id of each key that the task has."""
        with self._lock:
            marks = ", ".join("?" * len(item_keys))
            rows = self._connection.execute(f"SELECT item_id FROM items WHERE key IN ({marks})", [*item_keys])
            return [name for (name,) in rows]

    def get_item(self, item_key: str, annotator: str) -> OrderedItem:
        """Return an item as this annotator sees it.

        Raises:
            DataError: the task has no such item.
        """
        names = self.find_item_ids([item_key])
        if not names:
            raise DataError(f"The task has no item {item_key!r}: the answer is to another task.")
        with self._lock:
            return self._order(self._connection, names[0], annotator)

    def add_answer(self, answer: Answer) -> bool:
        """Store an answer; return whether it is new.

        A resend of a stored answer, and a second answer by the same annotator to the same item, change nothing.

        Raises:
            DataError: the item was not given to this annotator.
            ResourceError: the disk is full.
        """
        with self._begin_transaction() as database:
            return _insert_answer(database, answer, given=True)

    def add_answers(self, answers: Sequence[Answer]) -> int:
        """Store imported answers, all or none; return the number of new ones.

        Raises:
            DataError: an annotator has answered an item otherwise.
            ResourceError: the disk is full.
        """
        with self._begin_transaction() as database:
            return sum(
                not _has_same_answer(database, answer) and _insert_answer(database, answer, given=False)
                for answer in answers
            )

    def undo_answer(self, annotator: str, answer_id: str) -> OrderedItem | None:
        """Withdraw an answer of the annotator and return its item; None if there is nothing to answer again.

        A repeated call returns the item and changes nothing: the reply to the first one may have been lost. Answers to
        qualification items stay. The withdrawn row stays in the file.
        """
        with self._begin_transaction() as database:
            row = database.execute(
                "SELECT number, a.item_id, withdrawn FROM answers a JOIN items i ON i.item_id = a.item_id "
                "WHERE annotator = ? AND answer_id = ? AND role <> 'qualification'",
                (annotator, answer_id),
            ).fetchone()
            if row is None:
                return None
            number, name, withdrawn = row
            if not withdrawn:
                database.execute("UPDATE answers SET withdrawn = 1 WHERE number = ?", (number,))
                database.execute(
                    "INSERT OR REPLACE INTO assignments VALUES (?, ?, ?)", (name, annotator, self._clock())
                )
            elif _has_answered(database, name, annotator):
                return None
            return self._order(database, name, annotator)

    def measure_progress(self, annotator: str) -> Progress:
        """Return counts for an annotator and for the whole task."""
        with self._lock:
            database = self._connection
            (answered,) = database.execute(
                "SELECT count(*) FROM answers WHERE annotator = ? AND NOT withdrawn", (annotator,)
            ).fetchone()
            stored, wanted = _measure_whole(database, self.settings)
            last = database.execute(_LAST, (annotator,)).fetchone()
            failed = _has_failed(database, annotator, self.settings.pass_mark)
            waiting = database.execute(_WAITING, {"me": annotator}).fetchone()
            out = database.execute(_RESUME, {"me": annotator, "live": self._get_expiry()}).fetchone()
        state = "failed" if failed else "open" if out else "waiting" if waiting else "done"
        return Progress(answered, stored, wanted, last and last[0], state)

    def locate_image(self, key: str) -> tuple[Path, str] | None:
        """Return the table `images` and the image_id of a key; None if the task has no such image.

        The table's path is relative to the folder by which the task is named, which may be a link.
        """
        with self._lock:
            row = self._connection.execute(
                "SELECT source, image_id FROM images WHERE key = ?", (key,)
            ).fetchone()
        if row is None:
            return None
        source, image_id = row
        return Path(os.path.normpath(self.path.absolute().parent / source)), image_id

    def _find_next(self, database: sqlite3.Connection, annotator: str, holding: set[str]) -> str | None:
        """Return the next item for an annotator: resumed, of the qualification, gold, or fresh."""
        values = {"me": annotator, "live": self._get_expiry()}
        for (name,) in database.execute(_RESUME, values):
            if name not in holding:
                return str(name)
        qualification = database.execute(_OF_ROLE, {**values, "role": "qualification"}).fetchone()
        if qualification:
            return str(qualification[0])
        if holding & {
            name for (name,) in database.execute("SELECT item_id FROM items WHERE role = 'qualification'")
        }:
            return None  # nothing is given beyond the qualification before it is passed
        (number,) = database.execute(
            "SELECT count(*) FROM answers WHERE annotator = ? AND NOT withdrawn", (annotator,)
        ).fetchone()
        if self._is_gold_turn(annotator, number + len(holding)):
            gold = database.execute(_OF_ROLE, {**values, "role": "gold"}).fetchone()
            if gold:
                return str(gold[0])
        fresh = database.execute(_FRESH, values).fetchone()
        return fresh and str(fresh[0])

    def _is_gold_turn(self, annotator: str, number: int) -> bool:
        """Return whether the annotator's item of this number is a gold item: drawn, so that no rhythm tells it."""
        (key,) = compute_stable_keys([f"gold:{annotator}:{number}"], self.settings.seed).tolist()
        return bool(key % self.settings.gold_every == 0)

    def _get_expiry(self) -> float:
        """Return the time before which items that were given out have expired."""
        return self._clock() - 60 * self.settings.lease_minutes

    def _order(self, database: sqlite3.Connection, item_id: str, annotator: str) -> OrderedItem:
        row = database.execute(
            "SELECT item_id, content, gold, key FROM items WHERE item_id = ?", (item_id,)
        ).fetchone()
        return order_item(parse_item(*row), annotator, self.settings.seed)

    @contextmanager
    def _begin_transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection within one transaction that is committed, or rolled back after an error.

        Raises:
            ResourceError: the disk is full, or the file cannot be written.
        """
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):
                    cure = CURES.get(str(error), "Check the disk and its permissions.")
                    raise ResourceError(f"{str(self.path)!r} cannot be written: {error}. {cure}") from error
                raise


def _has_answered(database: sqlite3.Connection, item_id: str, annotator: str) -> bool:
    sql = "SELECT 1 FROM answers WHERE item_id = ? AND annotator = ? AND NOT withdrawn"
    return database.execute(sql, (item_id, annotator)).fetchone() is not None


def _measure_whole(database: sqlite3.Connection, settings: TaskSettings) -> tuple[int, int]:
    """Return stored and wanted answers of the whole task.

    Answers to gold items count, so that each answer moves the counter. How many of them there will be is an estimate, which is
    why the counter reaches its end only with the last item.
    """
    stored, wanted = database.execute(
        "SELECT total(min(answered, overlap)), total(overlap) FROM items WHERE role = 'item'"
    ).fetchone()
    items, answers = database.execute(
        "SELECT count(*), total(answered) FROM items WHERE role = 'gold'"
    ).fetchone()
    if not items:
        return int(stored), int(wanted)
    (people,) = database.execute("SELECT count(DISTINCT annotator) FROM answers").fetchone()
    expected = min(wanted // max(1, settings.gold_every - 1), items * max(people, settings.overlap))
    total = int(wanted + expected)
    return (total if stored == wanted else min(int(stored + answers), total - 1)), total


def _has_same_answer(database: sqlite3.Connection, answer: Answer) -> bool:
    """Return whether an imported answer is stored.

    Raises:
        DataError: the annotator has another answer to the item.
    """
    row = database.execute(
        "SELECT answer, skipped FROM answers WHERE item_id = ? AND annotator = ? AND NOT withdrawn",
        (answer.item_id, answer.annotator),
    ).fetchone()
    if row is not None and row != (answer.answer, answer.skipped):
        raise DataError(
            f"{answer.annotator!r} has answered item {answer.item_id!r} with {row[0] or row[1]!r}, and the file has "
            f"{answer.answer or answer.skipped!r}. Nothing was imported. Remove one of the answers."
        )
    return row is not None


def _insert_answer(database: sqlite3.Connection, answer: Answer, *, given: bool) -> bool:
    """Insert an answer unless it is known; return whether it is new.

    Args:
        given: require that the item was given to the annotator.
    """
    name, annotator = answer.item_id, answer.annotator
    known = database.execute(
        "SELECT 1 FROM answers WHERE answer_id = ? OR (item_id = ? AND annotator = ? AND NOT withdrawn)",
        (answer.answer_id, name, annotator),
    ).fetchone()
    if known:
        return False
    out = database.execute("DELETE FROM assignments WHERE item_id = ? AND annotator = ?", (name, annotator))
    if given and not out.rowcount:
        raise DataError(f"The item was not given to {annotator!r}.")
    at = answer.answered_at or datetime.now(UTC).isoformat(timespec="milliseconds")
    database.execute(
        "INSERT INTO answers (answer_id, item_id, annotator, answer, skipped, seconds, answered_at, display_order) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (answer.answer_id, name, annotator, answer.answer, answer.skipped, answer.seconds, at, answer.order),
    )
    return True


def _has_failed(database: sqlite3.Connection, annotator: str, pass_mark: float) -> bool:
    """Return whether the annotator has answered the whole qualification, and too little of it right."""
    total, answered, right = database.execute(
        "SELECT count(*), count(a.number), total(a.answer = i.gold) FROM items i LEFT JOIN answers a "
        "ON a.item_id = i.item_id AND a.annotator = ? AND NOT a.withdrawn WHERE i.role = 'qualification'",
        (annotator,),
    ).fetchone()
    return bool(total and answered == total and right < pass_mark * total)
