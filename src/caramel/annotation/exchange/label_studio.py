"""Write a task for Label Studio: tasks as JSON, and the labeling configuration.

One question is a `HyperText` with its caption, one `Image` per image, and `Choices` that each task brings along, because
items differ in their number of options, or a `TextArea`. Images are not part of the HTML, from which Label Studio removes
data URIs. Formats: labelstud.io/guide/tasks, labelstud.io/tags/choices, labelstud.io/tags/image.
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
# For items with fewer images than others: a transparent pixel.
NO_IMAGE = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def write_label_studio(
    folder: Path, settings: TaskSettings, items: Sequence[Item], read_image: Callable[[str], bytes]
) -> None:
    """Write tasks.json and config.xml. Images are inside the tasks, as data URIs."""
    ordered = [order_item(item, READER, settings.seed).questions for item in items]
    counts = [max(len(_list_images(q)) for q in questions) for questions in zip(*ordered, strict=True)]
    tasks = [
        {
            "data": {
                "task": settings.task,
                "guideline": settings.guideline_hash,
                "item_key": item.key,
                **_describe_questions(questions, max(counts), lambda key: encode_data_uri(read_image(key))),
            }
        }
        for item, questions in zip(items, ordered, strict=True)
    ]
    write_json(folder / TASKS, tasks)
    write_text(folder / CONFIG, build_config(items[0].questions, max(counts)))


def build_config(questions: Sequence[Question], images: int) -> str:
    """Return the labeling configuration of a task's questions.

    Args:
        images: largest number of images of a question.
    """
    parts = []
    for number, question in enumerate(questions, 1):
        control = (
            f'<TextArea name="answer_{number}" toName="shown_{number}" value="$draft_{number}" required="true" '
            'maxSubmissions="1" editable="true"/>'
            if question.editable
            else f'<Choices name="answer_{number}" toName="shown_{number}" value="$options_{number}" choice="single" '
            'required="true" showInline="true"/>'
        )
        cells = "".join(
            f'    <View style="flex: 1 1 14rem"><Text name="label_{number}_{k}" value="$label_{number}_{k}"/>'
            f'<Image name="image_{number}_{k}" value="$image_{number}_{k}"/></View>\n'
            for k in range(1, images + 1)
        )
        row = f'  <View style="display: flex; flex-wrap: wrap">\n{cells}  </View>\n' if images else ""
        parts.append(f'  <HyperText name="shown_{number}" value="$shown_{number}"/>\n{row}  {control}\n')
    return f"<View>\n{''.join(parts)}</View>\n"


def _list_images(question: Question) -> list[tuple[str, str]]:
    """Return label and key of each image of a question: the one to judge, then those of the options by number."""
    options = [(str(n), option.image) for n, option in enumerate(question.options, 1)]
    images = [("Image", question.image), *options]
    return [(label, image) for label, image in images if image]


def _describe_questions(
    questions: Sequence[Question], images: int, embed: Callable[[str], str]
) -> dict[str, Any]:
    """Return the data of an item, by the number of the question."""
    data: dict[str, Any] = {}
    for number, question in enumerate(questions, 1):
        data[f"shown_{number}"] = _format_question(question)
        encoded = [(label, embed(key)) for label, key in _list_images(question)]
        for k, (label, uri) in enumerate([*encoded, *[(" ", NO_IMAGE)] * (images - len(encoded))], 1):
            data[f"label_{number}_{k}"], data[f"image_{number}_{k}"] = label, uri
        if question.editable:
            data[f"draft_{number}"] = question.options[0].caption or ""
        else:
            data[f"options_{number}"] = [
                {"value": str(position), "html": f"{position} {escape(option.caption or '')}"}
                for position, option in enumerate(question.options, 1)
            ]
    return data


def _format_question(question: Question) -> str:
    """Return a question, its caption and the texts to edit as HTML."""
    caption = f"<blockquote>{escape(question.caption)}</blockquote>" if question.caption else ""
    texts = [escape(option.caption or "") for option in question.options if question.editable]
    drafts = "".join(f"<p>{number}: {text}</p>" for number, text in enumerate(texts, 1))
    return f"<p><b>{escape(question.text)}</b></p>{caption}{drafts}"
