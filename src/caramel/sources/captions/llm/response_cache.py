"""Store the responses of language models: raw data, saved as they arrive, each with a checksum.

One SQLite file holds every response that was ever paid for. A response is saved before the next one is
processed. A process that is killed therefore loses only requests in progress. A ``used`` response is one that
this run requested. These are written as table ``replies``, from which everything else is rebuilt without any
model.

Other processes of the same machine may read the file while a run writes it, for example with ``sqlite3
'file:work/replies/replies.sqlite?mode=ro'``: each response is a transaction of its own (SQLite's
write-ahead log).
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from filelock import FileLock, Timeout
from tqdm import tqdm

from caramel.errors import DataError, ResourceError
from caramel.interfaces.language_model import ModelOutput
from caramel.io.readers import open_parquet
from caramel.schemas.contracts import check_table
from caramel.schemas.llm import REPLIES

COLUMNS = tuple(REPLIES.columns)
ANSWER = COLUMNS[6:]  # text, finish, input_tokens, output_tokens, seconds
ROWS = 8192  # rows per part of the table
DIGITS = 32  # digits of the hash of a key
BUSY = 10.0  # seconds to wait for another process that has the file locked, such as one that copies it
_HALF = re.compile("[\ud800-\udfff]")
_TABLES = ("temp.published", "main.replies", "temp.unanswered")  # in this order of precedence


class ReplyKey(NamedTuple):
    """The key of a response; all fields that are more than a name are canonical JSON."""

    model: str
    prompt: str
    parameters: str
    input: str
    attempt: int

    @property
    def reply_id(self) -> str:
        """Return the hash of the key."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()[:DIGITS]


class ReplyStore:
    """Responses in one SQLite file; only one run at a time can open it, and others can read it.

    Args:
        path: path of the file; it is created if missing. ``PATH.lock`` beside it is locked until ``close``.

    Raises:
        DataError: the file is damaged, or is not a file of responses.
        ResourceError: another run has it open, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.broken = path, 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(f"{path}.lock")
        with self._translate_errors():
            self._lock.acquire(timeout=1.0)
            try:
                self._file = self._open_file()
            except BaseException:
                self._lock.release()
                raise

    def _open_file(self) -> sqlite3.Connection:
        """Return a connection to the file with all tables."""
        try:
            return _open_connection(self._path, "NORMAL")
        except sqlite3.OperationalError:
            # Readers need memory that processes share, which some network disks lack: then there are none.
            return _open_connection(self._path, "EXCLUSIVE")

    def close(self) -> None:
        """Close the file."""
        with self._translate_errors():
            self._file.close()
            self._lock.release()

    def get_reply(self, key: ReplyKey) -> tuple[ModelOutput, bool] | None:
        """Return the response and whether this run has used it before; None if the request must be sent.

        A response whose checksum or key does not match is deleted and requested again.
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

    def has_reply(self, reply_id: str) -> bool:
        """Return whether the file holds a response to the request with this id."""
        with self._translate_errors():
            cursor = self._file.execute("SELECT 1 FROM main.replies WHERE reply_id = ?", [reply_id])
            return cursor.fetchone() is not None

    def put_reply(self, key: ReplyKey, output: ModelOutput) -> ModelOutput:
        """Store a response and return it as stored; a request without a response is remembered for this run alone.

        Half a surrogate pair is not a valid character and becomes U+FFFD. A server that cuts a response can
        leave one.
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
        """Import a table of responses, such as a published data set's; return the number of rows.

        Its rows take precedence over the file's, so that the table's data set is rebuilt. A request without a
        response in the table counts as unanswered and is not sent again.

        Raises:
            DataError: the file is not a table of responses.
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
                    raise DataError(f"{str(path)!r}: the key of reply {wrong!r} does not match its hash.")
                number += len(rows)
                with self._translate_errors():
                    self._file.execute("BEGIN")
                    self._insert_rows([row for row in rows if row[6] is not None], "main.replies")
                    self._insert_rows(rows, "temp.published")
                    self._file.execute("COMMIT")
        return number

    def count_published(self, reply_ids: Collection[str]) -> int:
        """Return how many requests with these ids have a row in an imported table, with a response or without."""
        marks = ", ".join("?" * len(reply_ids))
        query = f"SELECT count(*) FROM temp.published WHERE reply_id IN ({marks})"
        with self._translate_errors():
            (number,) = self._file.execute(query, [*reply_ids]).fetchone()
        return int(number)

    def list_published_models(self) -> dict[str, set[str]]:
        """Return name of a prompt -> the models whose responses to it were imported."""
        models: dict[str, set[str]] = {}
        with self._translate_errors():
            for prompt, model in self._file.execute("SELECT DISTINCT prompt, model FROM temp.published"):
                models.setdefault(prompt.partition("@")[0], set()).add(model)
        return models

    def iter_used_replies(self) -> Iterator[pd.DataFrame]:
        """Yield the responses that this run used, as parts of table ``replies``, in the order of their keys."""
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
        """Mark a response of a table as used; return whether this is the first time."""
        return self._file.execute("INSERT OR IGNORE INTO used VALUES (?, ?)", [reply_id, table]).rowcount == 1

    def _insert_rows(self, rows: list[tuple[object, ...]], table: str) -> None:
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        self._file.executemany(
            f"INSERT OR IGNORE INTO {table} VALUES ({marks})",
            [(*row, _compute_checksum(row)) for row in rows],
        )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate errors of SQLite into errors that say what to do."""
        try:
            yield
        except (sqlite3.OperationalError, Timeout, OSError) as error:
            raise ResourceError(
                f"The responses in {str(self._path)!r} cannot be used: {error}. Another run may have the "
                f"file open: wait for it, or end it. Responses so far are saved."
            ) from error
        except sqlite3.DatabaseError as error:
            raise DataError(
                f"{str(self._path)!r} is damaged, or is not a file of responses: {error}. `sqlite3 FILE "
                f".recover` may save the intact rows. Otherwise move the file away; all requests are then "
                f"sent again."
            ) from error


def _open_connection(path: Path, locking_mode: str) -> sqlite3.Connection:
    """Return a connection with all tables; raises what sqlite3 raises."""
    columns = ", ".join(("reply_id PRIMARY KEY", *COLUMNS[1:], "checksum"))
    file = sqlite3.connect(path, isolation_level=None, timeout=BUSY)
    try:
        for line in (
            f"PRAGMA locking_mode={locking_mode}",
            "PRAGMA journal_mode=WAL",
            "PRAGMA synchronous=NORMAL",
            f"CREATE TABLE IF NOT EXISTS replies ({columns})",
            f"CREATE TEMP TABLE published ({columns})",
            f"CREATE TEMP TABLE unanswered ({columns})",
            "CREATE TEMP TABLE used (reply_id PRIMARY KEY, source)",
            "BEGIN IMMEDIATE",
            "COMMIT",
        ):
            file.execute(line)
    except sqlite3.Error:
        file.close()
        raise
    return file


@contextmanager
def open_replies(path: Path) -> Iterator[ReplyStore]:
    """Yield the responses in a file; at the end, print how many were damaged.

    Errors are those of ``ReplyStore``.
    """
    store = ReplyStore(path)
    try:
        yield store
    finally:
        if store.broken:
            tqdm.write(
                f"Damaged responses in {str(path)!r}: {store.broken}. They are requested again.",
                file=sys.stderr,
            )
        store.close()


def _compute_checksum(row: tuple[object, ...]) -> str:
    return hashlib.blake2b(json.dumps(row).encode(), digest_size=8).hexdigest()
