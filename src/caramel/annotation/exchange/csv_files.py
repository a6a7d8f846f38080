"""Write a task as CSV and image files, for platforms that hire annotators.

One row is one question. Options are numbered from 1; all annotators of the file see them in the same drawn order. The
columns `annotator`, `answer`, `skipped` and `seconds` are empty, and filled in when the file comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from caramel.annotation.items import Item, Question, order_item
from caramel.annotation.page_images import detect_media_type
from caramel.annotation.task_file import TaskSettings
from caramel.io.files import write_atomically, write_csv

FILE, IMAGES = "items.csv", "images"
READER = "csv"  # in place of an annotator when options are ordered
ANSWER_COLUMNS = ("annotator", "answer", "skipped", "seconds")


def write_csv_folder(
    folder: Path, settings: TaskSettings, items: Sequence[Item], read_image: Callable[[str], bytes]
) -> None:
    """Write items.csv and images/ into a folder.

    Raises the errors of ``read_image`` and of ``write_atomically``.
    """
    names = {}
    for key in sorted(set().union(*(item.list_images() for item in items))):
        data = read_image(key)
        names[key] = f"{IMAGES}/{key}.{detect_media_type(data).rpartition('/')[2]}"
        write_atomically(folder / names[key], partial(_write_bytes, data))
    rows = [
        {
            "task": settings.task,
            "guideline": settings.guideline_hash,
            "item_key": item.key,
            "question": question.name,
            **_describe_question(question, names),
            **dict.fromkeys(ANSWER_COLUMNS, ""),
        }
        for item in items
        for question in order_item(item, READER, settings.seed).questions
    ]
    write_csv(folder / FILE, pd.DataFrame(rows).fillna(""))


def _write_bytes(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _describe_question(question: Question, names: dict[str, str]) -> dict[str, str]:
    """Return the columns of a question: its text, what is shown, and option_1, option_2 …: captions or files."""
    options = {
        f"option_{number}": names[option.image] if option.image else option.caption or ""
        for number, option in enumerate(question.options, 1)
    }
    return {
        "text": question.text,
        "caption": question.caption or "",
        "image": names[question.image] if question.image else "",
        **options,
    }
