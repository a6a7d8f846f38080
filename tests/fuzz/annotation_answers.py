"""Valid inputs of annotation: a task with answers given elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

from annotation_tasks import compare_item, list_keys, text_item, write_task
from projects import put_text

from caramel.annotation.exchange.csv_files import write_csv_folder
from caramel.annotation.task_file import TaskSettings, open_task_file, read_items, read_settings

TASK, ITEMS = Path("task.db"), 5


def page_answers() -> None:
    """A task, and the file that a page saved."""
    settings = _write_task()
    rows = [
        {
            "answer_id": str(n),
            "item_key": key,
            "responses": [0],
            "seconds": 2.5,
            "answered_at": "2026-11-27T10:00:00.000Z",
        }
        for n, key in enumerate(list_keys(TASK).values())
    ]
    head = {
        "format": "caramel-answers-2",
        "task": "fits",
        "task_id": settings.task_id,
        "version": settings.guideline_hash,
        "annotator": "a1",
    }
    put_text("data/a1.json", json.dumps({**head, "answers": rows}))


def csv_answers() -> None:
    """A task of two questions an item, and its CSV with answers."""
    path = write_task(TASK, [compare_item(n) for n in range(ITEMS)], task="compare")
    connection = open_task_file(path)
    write_csv_folder(Path("data"), read_settings(connection), read_items(connection), lambda key: b"")
    connection.close()
    text = Path("data/items.csv").read_text(encoding="utf-8")
    head, *lines = text.splitlines()
    filled = [line[: -len(",,,")] + "a1,1,,2.5" for line in lines]
    put_text("data/items.csv", "\n".join([head, *filled]) + "\n")


def label_studio_answers() -> None:
    """A task, and Label Studio's export."""
    settings = _write_task()
    data = {"task": "fits", "guideline": settings.guideline_hash}
    rows = [
        {
            "id": n,
            "data": {**data, "item_key": key},
            "annotations": [
                {
                    "completed_by": 3,
                    "lead_time": 2.5,
                    "was_cancelled": False,
                    "created_at": "2026-11-27T10:00:00.000000Z",
                    "result": [{"from_name": "answer_1", "to_name": "shown_1", "value": {"choices": ["1"]}}],
                }
            ],
        }
        for n, key in enumerate(list_keys(TASK).values())
    ]
    put_text("data/export.json", json.dumps(rows))


def gold() -> None:
    """Tables of a project and a file of known answers."""
    from annotation_project import write_project

    write_project(Path("data"))
    put_text(
        "data/gold.csv", "item_id,answer,role\np0:replace_att,0,gold\np1:replace_att,none,qualification\n"
    )


def _write_task() -> TaskSettings:
    path = write_task(TASK, [text_item(n) for n in range(ITEMS)])
    connection = open_task_file(path)
    settings = read_settings(connection)
    connection.close()
    return settings
