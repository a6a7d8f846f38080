"""Write a task for Label Studio: tasks as JSON, and the labeling configuration.

One question is a `HyperText` (caption and image) with `Choices` that each task brings along, because items differ in their
number of options, or a `TextArea`. Formats: labelstud.io/guide/tasks, labelstud.io/tags/choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from caramel.annotation.exchange.html_page import encode_data_uri
from caramel.annotation.items import Item, Question, order_item
from caramel.annotation.task_file import TaskSettings
from caramel.io.files import write_json, write_text

READER = "label-studio"  # in place of an annotator when options are ordered
TASKS, CONFIG = "tasks.json", "config.xml"


def write_label_studio(
    folder: Path, settings: TaskSettings, items: Sequence[Item], read_image: Callable[[str], bytes]
) -> None:
    """Write tasks.json and config.xml. Images are inside the tasks, as data URIs."""

    def embed(key: str) -> str:
        return f'<img style="max-width: 100%" src="{encode_data_uri(read_image(key))}">'

    tasks = [{"data": _describe_item(item, settings, embed)} for item in items]
    write_json(folder / TASKS, tasks)
    write_text(folder / CONFIG, build_config(items[0].questions))


def build_config(questions: Sequence[Question]) -> str:
    """Return the labeling configuration of a task's questions."""
    parts = []
    for number, question in enumerate(questions, 1):
        control = (
            f'<TextArea name="answer_{number}" toName="shown_{number}" value="$draft_{number}" required="true" maxSubmissions="1" '
            'editable="true"/>'
            if question.editable
            else f'<Choices name="answer_{number}" toName="shown_{number}" value="$options_{number}" choice="single" '
            'required="true" showInline="true"/>'
        )
        parts.append(f'  <HyperText name="shown_{number}" value="$shown_{number}"/>\n  {control}\n')
    return f"<View>\n{''.join(parts)}</View>\n"


def _describe_item(item: Item, settings: TaskSettings, embed: Callable[[str], str]) -> dict[str, Any]:
    """Return the data of an item: what `HyperText` shows, and the options, by the question's number."""
    data: dict[str, Any] = {
        "task": settings.task,
        "guideline": settings.guideline_hash,
        "item_id": item.item_id,
    }
    for number, question in enumerate(order_item(item, READER, settings.seed).questions, 1):
        texts = [option.caption or "" for option in question.options]
        caption = f"<blockquote>{escape(question.caption)}</blockquote>" if question.caption else ""
        drafts = "".join(f"<p>{escape(text)}</p>" for text in texts) if question.editable else ""
        image = embed(question.image) if question.image else ""
        data[f"shown_{number}"] = f"<p><b>{escape(question.text)}</b></p>{caption}{image}{drafts}"
        if question.editable:
            data[f"draft_{number}"] = texts[0]
        else:
            data[f"options_{number}"] = [
                {
                    "value": str(position),
                    "html": f"{position} {embed(option.image) if option.image else escape(option.caption or '')}",
                }
                for position, option in enumerate(question.options, 1)
            ]
    return data
