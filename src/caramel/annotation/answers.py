"""Read the answers of a task file as table `annotations`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pandas as pd

from caramel.annotation.task_file import open_task_file, read_settings
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.io import build_frame

_SELECT = """SELECT a.item_id, annotator, answer, skipped, seconds, answered_at, i.gold, display_order AS "order"
    FROM answers a JOIN items i ON i.item_id = a.item_id WHERE NOT withdrawn ORDER BY a.item_id, annotator"""


def read_answers(path: Path) -> pd.DataFrame:
    """Return all answers of a task file that were not withdrawn, by item and annotator: table `annotations`.

    Raises the errors of ``open_task_file``.
    """
    with closing(open_task_file(path)) as connection:
        settings = read_settings(connection)
        rows = pd.read_sql_query(_SELECT, connection)
    rows = rows.assign(task=settings.task, guideline=settings.guideline_hash)
    return build_frame(ANNOTATIONS, rows.astype({"seconds": "float64"}))
