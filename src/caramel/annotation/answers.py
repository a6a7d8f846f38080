"""Read the answers of a task file as table `annotations`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pandas as pd

from caramel.annotation.content import hash_judged
from caramel.annotation.items import Item, parse_item
from caramel.annotation.task_file import open_task_file, read_settings
from caramel.schemas.annotation import ANNOTATIONS, UNANSWERED
from caramel.schemas.io import build_frame

UNORDERED = "import-csv-"  # start of the ids of answers whose order is unknown
_SELECT = """SELECT a.item_id, i.role, a.annotator, i.content, a.answer, a.skipped, a.seconds, a.answered_at,
        CASE WHEN a.answer_id GLOB :unordered THEN NULL ELSE a.number END AS turn,
        i.gold, a.display_order AS "order"
    FROM answers a JOIN items i ON i.item_id = a.item_id WHERE NOT a.withdrawn ORDER BY a.item_id, a.annotator"""
# Annotators who answered the whole qualification, and too little of it right.
_FAILED = """SELECT a.annotator FROM answers a JOIN items i ON i.item_id = a.item_id
    WHERE i.role = 'qualification' AND NOT a.withdrawn GROUP BY a.annotator
    HAVING count(*) = (SELECT count(*) FROM items WHERE role = 'qualification')
    AND total(a.answer = i.gold) < :pass_mark * count(*)"""


def read_answers(path: Path) -> pd.DataFrame:
    """Return all answers of a task file that were not withdrawn, by item and annotator: table `annotations`.

    Raises the errors of ``open_task_file``.
    """
    with closing(open_task_file(path)) as connection:
        settings = read_settings(connection)
        rows = pd.read_sql_query(_SELECT, connection, params={"unordered": f"{UNORDERED}*"})
        failed = {name for (name,) in connection.execute(_FAILED, {"pass_mark": settings.pass_mark})}
    stored = rows[["item_id", "content"]].drop_duplicates("item_id")
    hashes = {name: hash_item(parse_item(name, content, None)) for name, content in stored.to_numpy()}
    rows = rows.assign(
        task=settings.task,
        guideline=settings.guideline_hash,
        content=rows["item_id"].map(hashes),
        qualified=~rows["annotator"].isin(failed),
    )
    return build_frame(ANNOTATIONS, rows.astype({"seconds": "float64", "turn": "float64"}))


def list_unanswered_items(path: Path) -> pd.DataFrame:
    """Return a row of role ``unanswered`` for each item of a task file that nobody answered or skipped.

    They tell a text that nobody has seen yet from one that is in no task. Rows of table ``annotations``.

    Raises the errors of ``open_task_file``.
    """
    with closing(open_task_file(path)) as connection:
        settings = read_settings(connection)
        items = connection.execute(
            "SELECT item_id, content FROM items WHERE role = 'item' AND item_id NOT IN "
            "(SELECT item_id FROM answers WHERE NOT withdrawn) ORDER BY item_id"
        ).fetchall()
    common = {
        "task": settings.task,
        "role": UNANSWERED,
        "annotator": "",
        "qualified": True,
        "guideline": settings.guideline_hash,
        "answered_at": "",
        "order": "[]",
    }
    return build_frame(
        ANNOTATIONS,
        [
            {"item_id": name, "content": hash_item(parse_item(name, content, None)), **common}
            for name, content in items
        ],
    )


def hash_item(item: Item) -> str:
    """Return the hash of the captions and images of an item: column `content` of the table `annotations`.

    Words such as `None of them`, and drafts that are edited, are not judged and do not count.
    """
    captions = [q.caption for q in item.questions]
    captions += [o.caption for q in item.questions if not q.editable for o in q.options if not o.fixed]
    images = [image for q in item.questions for image in (q.image, *(o.image for o in q.options))]
    return hash_judged(filter(None, captions), filter(None, images))
