"""Write a task as one HTML page for an annotator who cannot reach a server.

The page holds items, images, style and script. Answers stay in the annotator's browser until they are saved to a JSON
file, which `import_answers` reads.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path

from caramel.annotation.items import MAX_TEXT, Item, order_item
from caramel.annotation.page_images import detect_media_type
from caramel.annotation.server import PAGE
from caramel.annotation.task_file import TaskSettings
from caramel.io.files import write_text
from caramel.io.offline_page import fill_offline_page

ANSWERS_FORMAT = "caramel-answers-2"


def write_page(
    path: Path,
    settings: TaskSettings,
    items: Sequence[Item],
    annotator: str,
    read_image: Callable[[str], bytes],
) -> None:
    """Write the page of one annotator.

    Args:
        read_image: returns an encoded image by its key.

    Raises the errors of ``read_image`` and of ``write_text``.
    """
    keys = sorted(set().union(*(item.list_images() for item in items)))
    embedded = {
        "format": ANSWERS_FORMAT,
        "task": settings.task,
        "task_id": settings.task_id,
        "version": settings.guideline_hash,
        "guideline": settings.guideline,
        "annotator": annotator,
        "max_text": MAX_TEXT,
        "items": [order_item(item, annotator, settings.seed).describe() for item in items],
        "images": {key: encode_data_uri(read_image(key)) for key in keys},
    }
    write_text(path, fill_offline_page(PAGE, embedded))


def encode_data_uri(data: bytes) -> str:
    """Return an image as a data URI."""
    return f"data:{detect_media_type(data)};base64,{base64.b64encode(data).decode()}"
