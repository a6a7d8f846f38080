"""The task file: one SQLite database with instructions, items, the images' locations and all answers.

It is written once, under a temporary name. Answers are added by `store`. Images stay in their shards.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from caramel.annotation.guidelines import hash_guideline
from caramel.annotation.items import Item, format_item, parse_item
from caramel.errors import ConfigError, DataError, ResourceError
from caramel.io.files import write_atomically
from caramel.utils.hashing import compute_stable_keys

FORMAT = "2"
SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE images (  -- key: SHA-256 of the encoded image
    key TEXT PRIMARY KEY, source TEXT NOT NULL, image_id TEXT NOT NULL
) STRICT;
CREATE TABLE items (
    item_id TEXT PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,  -- what pages and exported files name the item by: item_id may tell the answer
    role TEXT NOT NULL CHECK (role IN ('item', 'gold', 'qualification')),
    overlap INTEGER NOT NULL,  -- answers that are wanted
    position INTEGER NOT NULL,
    content TEXT NOT NULL,
    gold TEXT,
    answered INTEGER NOT NULL DEFAULT 0  -- answers that count: neither skipped nor withdrawn
) STRICT;
CREATE INDEX items_open ON items (role, answered DESC, position);
CREATE TABLE assignments (  -- items that are out: given to an annotator and not answered
    item_id TEXT NOT NULL, annotator TEXT NOT NULL, given_at REAL NOT NULL, PRIMARY KEY (item_id, annotator)
) STRICT;
CREATE TABLE answers (
    number INTEGER PRIMARY KEY,
    answer_id TEXT NOT NULL UNIQUE,
    item_id TEXT NOT NULL REFERENCES items (item_id),
    annotator TEXT NOT NULL,
    answer TEXT,
    skipped TEXT,
    seconds REAL,
    answered_at TEXT NOT NULL,
    display_order TEXT NOT NULL,
    withdrawn INTEGER NOT NULL DEFAULT 0,
    CHECK ((answer IS NULL) <> (skipped IS NULL))
) STRICT;
CREATE UNIQUE INDEX answers_once ON answers (item_id, annotator) WHERE NOT withdrawn;
CREATE INDEX answers_of ON answers (annotator, number);
CREATE TRIGGER count_answer AFTER INSERT ON answers WHEN new.skipped IS NULL BEGIN
    UPDATE items SET answered = answered + 1 WHERE item_id = new.item_id;
END;
CREATE TRIGGER count_withdrawal AFTER UPDATE OF withdrawn ON answers
    WHEN new.withdrawn > old.withdrawn AND new.skipped IS NULL BEGIN
    UPDATE items SET answered = answered - 1 WHERE item_id = new.item_id;
END;
"""


@dataclass(frozen=True)
class TaskSettings:
    """How a task is given out."""

    task: str  # one of `schemas.annotation.TASKS`
    guideline: str  # the instructions' text
    seed: int  # of the order of items, of options and of gold items
    overlap: int = 1  # answers per item
    shared: int | None = None  # items that get `overlap` answers; the others get one. None: all
    lease_minutes: float = 10.0  # after which an item that was given out comes back
    gold_every: int = 10  # one item in so many is a gold item
    pass_mark: float = 0.8  # share of qualification items to answer right
    # Random: browsers keep unsent answers by it, and tasks may have equal instructions and items.
    task_id: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def guideline_hash(self) -> str:
        """Version of the instructions."""
        return hash_guideline(self.guideline)


def create_task_file(
    path: Path,
    settings: TaskSettings,
    items: Sequence[Item],
    images: Mapping[str, tuple[Path, str]],
    roles: Mapping[str, str],
) -> None:
    """Write a new task file, atomically.

    Args:
        images: for each key the table `images` and the image_id.
        roles: `gold` or `qualification` for items with an expected answer that are used so.

    Raises:
        DataError: there are no items, or an item_id is a duplicate.
        ConfigError: the file exists.
        ResourceError: the volume is full.
    """
    if path.exists():
        raise ConfigError(f"{str(path)!r} exists, and may hold answers. Give another path, or remove it.")
    logs = [Path(f"{path}{ending}") for ending in ("-wal", "-shm")]
    if leftover := [str(log) for log in logs if log.exists()]:
        # SQLite would write the answers of a server that was killed into the new file.
        raise ConfigError(
            f"{' and '.join(leftover)} belong to a task that was in {str(path)!r}, and may hold answers. Give another path, or remove them."
        )
    if all(item.item_id in roles for item in items):
        raise DataError(
            f"The task has no items to judge ({len(items)} for gold and qualification). Check the tables it is made from."
        )
    names = [item.item_id for item in items]
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise DataError(f"Item {duplicate!r} occurs more than once.")
    keys = compute_stable_keys(names, settings.seed).tolist()
    ordered = [item for _, item in sorted(zip(keys, items, strict=True), key=lambda pair: pair[0])]
    write_atomically(path, lambda new: _write_task(new, path, settings, ordered, images, roles))


def _write_task(
    new: Path,
    path: Path,
    settings: TaskSettings,
    items: Sequence[Item],
    images: Mapping[str, tuple[Path, str]],
    roles: Mapping[str, str],
) -> None:
    shared = len(items) if settings.shared is None else settings.shared
    folder = path.absolute().parent
    used = set().union(*(item.list_images() for item in items))
    rows, judged = [], 0
    for position, item in enumerate(items):
        role = roles.get(item.item_id, "item")
        overlap = settings.overlap if judged < shared else 1
        judged += role == "item"
        key = f"i{secrets.token_hex(8)}"  # spreadsheets would rewrite 12e3… as a number
        rows.append((item.item_id, key, role, overlap, position, format_item(item), item.gold))
    try:
        with closing(sqlite3.connect(new)) as connection, connection:
            connection.executescript(SCHEMA)
            meta = {"format": FORMAT, "settings": json.dumps(asdict(settings))}
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            connection.executemany(
                "INSERT INTO images VALUES (?, ?, ?)",
                [
                    (key, os.path.relpath(index.absolute(), folder), image_id)
                    for key, (index, image_id) in images.items()
                    if key in used
                ],
            )
            connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, 0)", rows)
    except sqlite3.OperationalError as error:
        raise ResourceError(f"{str(path)!r} cannot be written: {error}. Free some space there.") from error


def open_task_file(path: Path) -> sqlite3.Connection:
    """Return a connection to a task file in WAL mode: every commit is synced to disk.

    Raises:
        DataError: the file is missing, or is no task file of this version.
        ResourceError: it cannot be written.
    """
    if not path.is_file():
        raise DataError(f"Task file {str(path)!r} is missing. `caramel annotate make` writes one.")
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
    try:
        version = connection.execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
        if version is None or version[0] != FORMAT:
            raise DataError(
                f"{str(path)!r} has format {version and version[0]!r}; this version reads {FORMAT!r}. Make the task again."
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.DatabaseError as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
            raise ResourceError(f"{str(path)!r} cannot be opened: {error}.") from error
        raise DataError(
            f"{str(path)!r} is not a task file: {error}. `caramel annotate make` writes one."
        ) from error
    except DataError:
        connection.close()
        raise
    return connection


def read_settings(connection: sqlite3.Connection) -> TaskSettings:
    """Return the settings of a task file."""
    (text,) = connection.execute("SELECT value FROM meta WHERE name = 'settings'").fetchone()
    return TaskSettings(**json.loads(text))


def read_items(connection: sqlite3.Connection) -> list[Item]:
    """Return the items to be judged, gold items among them, in the task's order."""
    rows = connection.execute(
        "SELECT item_id, content, gold, key FROM items WHERE role <> 'qualification' ORDER BY position"
    )
    return [parse_item(*row) for row in rows]
