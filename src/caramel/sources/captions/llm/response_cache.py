"""The replies of language models: raw data, kept as they come, each with a checksum.

One SQLite file holds every reply that was ever paid for. A reply is there for good before the next one is looked at, so that a
killed process loses what is under way and no more. ``used`` are those that a run asked for, now or before: they are
written as table ``replies``, from which everything else is rebuilt without any model.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from tqdm import tqdm

from caramel.errors import DataError, ResourceError
from caramel.interfaces.language_model import ModelOutput
from caramel.io.readers import open_parquet
from caramel.schemas.contracts import check_table
from caramel.schemas.llm import REPLIES

COLUMNS = tuple(REPLIES.columns)
ANSWER = COLUMNS[6:]  # text, finish, input_tokens, output_tokens, seconds
ROWS = 8192  # of a part of the table
DIGITS = 32  # of the hash of a key
_HALF = re.compile("[\ud800-\udfff]")
_TABLES = ("temp.published", "main.replies", "temp.unanswered")  # a reply is taken from the first that has it


class ReplyKey(NamedTuple):
    """What a reply is the reply to; all texts that are more than a name are canonical JSON."""

    model: str
    prompt: str
    parameters: str
    input: str
    attempt: int

    @property
    def reply_id(self) -> str:
        """The hash of the key."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()[:DIGITS]


class ReplyStore:
    """Replies in one file; one process at a time has it open.

    Args:
        path: of the file; it is made if need be.

    Raises:
        DataError: it is damaged, or no such file.
        ResourceError: another process has it open, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.broken = path, 0
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = ", ".join(("reply_id PRIMARY KEY", *COLUMNS[1:], "checksum"))
        with self._translate_errors():
            self._file = sqlite3.connect(path, isolation_level=None, timeout=1.0)
            # One process alone needs no memory that is shared, which network disks do not have.
            for line in (
                "PRAGMA locking_mode=EXCLUSIVE",
                "PRAGMA journal_mode=WAL",
                "PRAGMA synchronous=NORMAL",
                f"CREATE TABLE IF NOT EXISTS replies ({columns})",
                f"CREATE TEMP TABLE published ({columns})",
                f"CREATE TEMP TABLE unanswered ({columns})",
                "CREATE TEMP TABLE used (reply_id PRIMARY KEY, source)",
                "BEGIN IMMEDIATE",
                "COMMIT",
            ):
                self._file.execute(line)

    def close(self) -> None:
        """Let go of the file."""
        with self._translate_errors():
            self._file.close()

    def get_reply(self, key: ReplyKey) -> tuple[ModelOutput, bool] | None:
        """Return what was said, and whether this run has used it before; None if it must be asked.

        A reply that is not as it was written counts as none; it is asked again.
        """
        with self._translate_errors():
            for table in _TABLES:
                cursor = self._file.execute(f"SELECT * FROM {table} WHERE reply_id = ?", [key.reply_id])
                row = cursor.fetchone()
                if row is None:
                    continue
                if row[-1] == _compute_checksum(row[:-1]) and row[1:6] == key:
                    return ModelOutput(*row[6:11]), not self._mark_used(key.reply_id, table)
                self.broken += 1
                self._file.execute(f"DELETE FROM {table} WHERE reply_id = ?", [key.reply_id])
        return None

    def put_reply(self, key: ReplyKey, output: ModelOutput) -> ModelOutput:
        """Keep a reply and return it as it is kept; a request without one is remembered for this run alone.

        Half a surrogate pair, which a server that cuts a reply can leave, is no character: it becomes U+FFFD.
        """
        if output.text is not None:
            output = output._replace(
                text=_HALF.sub("\ufffd", output.text), finish_reason=_HALF.sub("\ufffd", output.finish_reason)
            )
        row = (key.reply_id, *key, *output[: len(ANSWER)])
        table = "main.replies" if output.text is not None else "temp.unanswered"
        with self._translate_errors():
            self._insert_rows([row], table)
            self._mark_used(key.reply_id, table)
        return output

    def import_table(self, path: Path) -> int:
        """Take over a table of replies, such as that of a published data set; return how many there are.

        They win over what is in the file: the table's data set is made again. What was not answered when it was made
        counts as not answered now, and is not asked again.

        Raises:
            DataError: it is no table of replies.
        """
        number = 0
        with open_parquet(path) as file:
            former = list(REPLIES.former_names.values())
            stored = former if {*former} <= {*file.schema_arrow.names} else list(COLUMNS)
        with open_parquet(path, stored) as file:
            for batch in file.iter_batches(ROWS, columns=stored):
                rows = [tuple(row[name] for name in stored) for row in batch.to_pylist()]
                check_table(REPLIES, pd.DataFrame(rows, columns=list(COLUMNS)), str(path))
                wrong = next((row[0] for row in rows if ReplyKey(*row[1:6]).reply_id != row[0]), None)
                if wrong is not None:
                    raise DataError(f"{str(path)!r}: reply {wrong!r} has another key than its hash says.")
                number += len(rows)
                with self._translate_errors():
                    self._file.execute("BEGIN")
                    self._insert_rows([row for row in rows if row[6] is not None], "main.replies")
                    self._insert_rows(rows, "temp.published")
                    self._file.execute("COMMIT")
        return number

    def list_published_models(self) -> dict[str, set[str]]:
        """Return name of a prompt -> the models whose replies to it were adopted."""
        models: dict[str, set[str]] = {}
        with self._translate_errors():
            for prompt, model in self._file.execute("SELECT DISTINCT prompt, model FROM temp.published"):
                models.setdefault(prompt.partition("@")[0], set()).add(model)
        return models

    def iter_used_replies(self) -> Iterator[pd.DataFrame]:
        """Yield the replies that this run used, as parts of table ``replies``, in the order of their keys."""
        selects = (f"SELECT *, '{table}' AS source FROM {table}" for table in _TABLES)
        order = ", ".join(REPLIES.key)
        with self._translate_errors():
            rows = self._file.execute(
                f"SELECT * FROM ({' UNION ALL '.join(selects)}) JOIN used USING (reply_id, source) ORDER BY {order}"
            )
            while part := rows.fetchmany(ROWS):
                yield pd.DataFrame([row[: len(COLUMNS)] for row in part], columns=list(COLUMNS)).astype(
                    {"input_tokens": "Int64", "output_tokens": "Int64"}
                )

    def _mark_used(self, reply_id: str, table: str) -> bool:
        """Note that a reply of a table is used; return whether it is for the first time."""
        return self._file.execute("INSERT OR IGNORE INTO used VALUES (?, ?)", [reply_id, table]).rowcount == 1

    def _insert_rows(self, rows: list[tuple[object, ...]], table: str) -> None:
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        self._file.executemany(
            f"INSERT OR IGNORE INTO {table} VALUES ({marks})",
            [(*row, _compute_checksum(row)) for row in rows],
        )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Say what is wrong with the file in words that help."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise ResourceError(
                f"The replies in {str(self._path)!r} cannot be used: {error}. Another run may be asking: wait for it, or end "
                f"it. What came so far is kept."
            ) from error
        except sqlite3.DatabaseError as error:
            raise DataError(
                f"{str(self._path)!r} is no file of replies, or damaged: {error}. `sqlite3 FILE .recover` may save what is "
                f"whole; else move it away, and all is asked again."
            ) from error


@contextmanager
def open_replies(path: Path) -> Iterator[ReplyStore]:
    """Give the replies in a file; say at the end how many were broken. Errors as in ``ReplyStore``."""
    store = ReplyStore(path)
    try:
        yield store
    finally:
        if store.broken:
            tqdm.write(
                f"Broken replies in {str(path)!r}: {store.broken}. They are asked again.", file=sys.stderr
            )
        store.close()


def _compute_checksum(row: tuple[object, ...]) -> str:
    return hashlib.blake2b(json.dumps(row).encode(), digest_size=8).hexdigest()
