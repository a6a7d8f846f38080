"""What was judged elsewhere comes back whole, or not at all."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from annotation_tasks import compare_item, image_task, text_item, write_task

from caramel.annotation.answers import read_answers
from caramel.annotation.exchange.csv_files import write_csv_folder
from caramel.annotation.exchange.html_page import write_page
from caramel.annotation.exchange.importing import import_answers
from caramel.annotation.exchange.label_studio import build_config, write_label_studio
from caramel.annotation.items import order_item
from caramel.annotation.page_images import TaskImages
from caramel.annotation.store import AnswerStore
from caramel.errors import DataError


def exported(store: AnswerStore, folder: Path, write: Callable[..., None]) -> Path:
    write(folder, store.settings, store.list_exported_items(), TaskImages(store.locate_image).read)
    return folder


KEY = "key of n001"


def page_answers(store: AnswerStore, **more: Any) -> dict[str, Any]:
    """Return what a page saves: the first option of each item."""
    settings = store.settings
    answers = [
        {
            "answer_id": item.key,
            "item_key": item.key,
            "responses": [0] * len(item.questions),
            "seconds": 2.0,
            "answered_at": "2026-11-27T10:00:00.000Z",
        }
        for item in store.list_exported_items()
    ]
    head = {
        "format": "caramel-answers-2",
        "task": settings.task,
        "task_id": settings.task_id,
        "version": settings.guideline_hash,
        "annotator": "a1",
    }
    answers = more.get("answers", answers)
    keys = {item.item_id: item.key for item in store.list_exported_items()}
    for row in answers or ():
        if row.get("item_key") == KEY:
            row["item_key"] = keys["n001"]
    return {**head, **more, "answers": answers}


def write_json(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_answers_of_a_page_come_back_as_values(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(1), text_item(2)])
    store = AnswerStore(path)
    file = write_json(tmp_path / "a1.json", page_answers(store))
    assert import_answers(store, file) == (2, 2)
    assert import_answers(store, file) == (0, 2), "a second import adds nothing"
    rows = read_answers(path)
    for row, item in zip(rows.itertuples(), store.list_exported_items(), strict=True):
        first = json.loads(
            order_item(
                item if item.item_id == row.item_id else text_item(int(row.item_id[1:])), "a1", 3
            ).format_order()
        )[0]
        assert row.answer == first
    assert rows["answered_at"].tolist() == ["2026-11-27T10:00:00.000+00:00"] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "choose"}, "task 'choose'"),
        ({"version": "0" * 16}, "version '0000000000000000'"),
        ({"annotator": "<img src=x onerror=alert(1)>"}, "pseudonym"),
        ({"annotator": "Jane Doe"}, "pseudonym"),
        ({"format": "x"}, "neither"),
        ({"task_id": "0" * 16}, "another task file"),
        ({"answers": {}}, "answers"),
        ({"answers": [{"item_key": "n001"}]}, "answer 1"),
        ({"answers": [{"item_key": "n009", "responses": [0], "answered_at": "2026-11-27T10:00:00Z"}]}, "no item 'n009'"),
        ({"answers": [{"item_key": KEY, "responses": [7], "answered_at": "2026-11-27T10:00:00Z"}]}, "number of an option"),
        ({"answers": [{"item_key": KEY, "responses": [0], "answered_at": "yesterday"}]}, "ISO 8601"),
        ({"answers": [{"item_key": KEY, "responses": [0], "answered_at": "2026-11-27T10:00:00"}]}, "time zone"),
        ({"answers": [{"item_key": KEY, "skipped": "", "answered_at": "2026-11-27T10:00:00Z"}]}, "reason"),
    ],
)  # fmt: skip
def test_a_file_of_another_task_version_or_form_adds_nothing(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = write_task(tmp_path / "t.db", [text_item(1), text_item(2)])
    store = AnswerStore(path)
    with pytest.raises(DataError, match=message):
        import_answers(store, write_json(tmp_path / "a1.json", page_answers(store, **change)))
    assert len(read_answers(path)) == 0


def test_an_answer_that_contradicts_a_stored_one_adds_nothing(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(1), text_item(2)])
    store = AnswerStore(path)
    whole = page_answers(store)
    import_answers(store, write_json(tmp_path / "one.json", {**whole, "answers": whole["answers"][1:]}))
    whole["answers"][1]["responses"] = [1]
    with pytest.raises(DataError, match="Nothing was imported"):
        import_answers(store, write_json(tmp_path / "two.json", whole))
    assert len(read_answers(path)) == 1


def filled(folder: Path, change: Callable[[list[dict[str, str]]], None]) -> Path:
    """Fill in items.csv as a platform does."""
    with (folder / "items.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    change(rows)
    with (folder / "back.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / "back.csv"


def test_a_csv_goes_out_with_images_and_comes_back_with_answers(tmp_path: Path) -> None:
    path = image_task(tmp_path, 3)
    store = AnswerStore(path)
    folder = exported(store, tmp_path / "csv", write_csv_folder)

    def fill(rows: list[dict[str, str]]) -> None:
        assert all((folder / row["option_1"]).is_file() for row in rows)
        assert [row["option_3"] for row in rows] == ["None of them"] * 3
        rows[0].update(annotator="w1", answer="3", seconds="4.5")
        rows[1].update(annotator="w1", skipped="broken")

    assert import_answers(store, filled(folder, fill)) == (2, 2)
    rows = read_answers(path)
    assert sorted(rows["answer"].dropna()) == ["none"]
    assert rows["skipped"].dropna().tolist() == ["broken"]


def test_a_csv_with_two_questions_needs_both(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [compare_item(1), compare_item(2)], task="compare")
    store = AnswerStore(path)
    folder = exported(store, tmp_path / "csv", write_csv_folder)

    def fill(rows: list[dict[str, str]]) -> None:
        for row in rows:
            row.update(annotator="w1", answer="1")

    assert import_answers(store, filled(folder, fill)) == (2, 2)
    assert set(json.loads(read_answers(path)["answer"][0])) == {"plausible", "grammatical"}
    with pytest.raises(DataError, match="questions"):
        import_answers(store, filled(folder, lambda rows: rows[0].update(annotator="w2", answer="1")))
    for cell in ({"answer": "0"}, {"answer": "x"}, {"answer": ""}, {"seconds": "soon"}, {"guideline": "1"}):
        with pytest.raises(DataError, match="csv"):
            import_answers(
                store,
                filled(
                    folder,
                    lambda rows, cell=cell: [
                        r.update({"annotator": "w3", "answer": "1", **cell}) for r in rows
                    ],
                ),
            )  # type: ignore[misc]
    assert len(read_answers(path)) == 2


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"answer": "1"}, "no annotator"),
        ({"annotator": "w1", "answer": "1", "skipped": "dark"}, "Remove one of them"),
    ],
)
def test_no_answer_of_a_csv_is_left_out_without_a_word(
    tmp_path: Path, cells: dict[str, str], message: str
) -> None:
    path = image_task(tmp_path, 2)
    store = AnswerStore(path)
    folder = exported(store, tmp_path / "csv", write_csv_folder)
    with pytest.raises(DataError, match=rf"back\.csv.*{message}"):
        import_answers(store, filled(folder, lambda rows: rows[0].update(cells)))
    assert len(read_answers(path)) == 0


def label_studio_export(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return Label Studio's export of tasks, in which all chose the second option."""
    return [
        {
            "id": number,
            "data": task["data"],
            "annotations": [
                {
                    "completed_by": {"id": 7, "email": "jane@example.org"},
                    "lead_time": 3.25,
                    "was_cancelled": False,
                    "created_at": "2026-11-27T10:00:00.000000Z",
                    "result": [
                        {
                            "from_name": f"answer_{n}",
                            "to_name": f"shown_{n}",
                            "type": "choices",
                            "value": {"choices": ["2"]},
                        }
                        for n in range(1, 3)
                        if f"options_{n}" in task["data"]
                    ],
                }
            ],
        }
        for number, task in enumerate(tasks)
    ]


def test_label_studio_gets_tasks_and_its_export_comes_back_without_names(tmp_path: Path) -> None:
    path = image_task(tmp_path, 2)
    store = AnswerStore(path)
    folder = exported(store, tmp_path / "ls", write_label_studio)
    tasks = json.loads((folder / "tasks.json").read_text())
    images = [tasks[0]["data"][f"image_1_{n}"] for n in (1, 2)]
    assert all(image.startswith("data:image/png;base64,") for image in images)
    assert import_answers(store, write_json(tmp_path / "export.json", label_studio_export(tasks))) == (2, 2)
    rows = read_answers(path)
    assert set(rows["annotator"]) == {"ls-7"}
    assert "jane" not in rows.to_json()
    assert rows["seconds"].tolist() == [3.25, 3.25]


@pytest.mark.parametrize("author", [None, {"email": "jane@example.org"}, True, [7]])
def test_answers_of_unknown_authors_are_not_pooled(tmp_path: Path, author: object) -> None:
    path = image_task(tmp_path, 1)
    store = AnswerStore(path)
    folder = exported(store, tmp_path / "ls", write_label_studio)
    export = label_studio_export(json.loads((folder / "tasks.json").read_text()))
    export[0]["annotations"][0]["completed_by"] = author
    with pytest.raises(DataError, match="completed_by"):
        import_answers(store, write_json(tmp_path / "export.json", export))
    export[0]["annotations"] = ["x"]
    with pytest.raises(DataError, match="must be a JSON object"):
        import_answers(store, write_json(tmp_path / "export.json", export))
    assert len(read_answers(path)) == 0


def test_captions_are_text_in_label_studio_and_in_a_page(tmp_path: Path) -> None:
    path = write_task(tmp_path / "t.db", [text_item(1, "<img src=x onerror=alert(1)></script>")])
    store = AnswerStore(path)
    folder = exported(store, tmp_path / "ls", write_label_studio)
    (task,) = json.loads((folder / "tasks.json").read_text())
    assert "<img" not in task["data"]["shown_1"]
    write_page(tmp_path / "a.html", store.settings, store.list_exported_items(), "a1", lambda key: b"")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<img src=x" not in page
    assert page.count("</script>") == 2
    assert not re.search(r"https?://", page)


def test_an_edited_question_is_a_text_area_in_label_studio() -> None:
    from caramel.annotation.items import Option, Question

    config = build_config([Question("text", "Correct", (Option("draft", "a"),), editable=True)], 0)
    assert "<TextArea" in config
    assert "<Choices" not in config
