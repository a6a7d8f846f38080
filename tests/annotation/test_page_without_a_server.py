"""The page that needs no server, in a real browser."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from annotation_browser import PHONE, begin, press, until, wait_for
from annotation_tasks import (
    choose_item,
    image_task,
    text_item,
    write_task,
)

from caramel.annotation.answers import read_answers
from caramel.annotation.exchange.html_page import write_page
from caramel.annotation.exchange.importing import import_answers
from caramel.annotation.page_images import TaskImages
from caramel.annotation.store import AnswerStore
from caramel.errors import DataError

RUN = "document.documentElement.dataset.planted=1"


def test_two_pages_of_one_annotator_without_a_server_keep_their_answers_apart(
    browser: Any, tmp_path: Path
) -> None:
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    for name in "ab":
        path = write_task(tmp_path / f"{name}.db", [text_item(n) for n in range(2)])
        with closing(AnswerStore(path)) as store:
            write_page(
                tmp_path / f"{name}.html", store.settings, store.list_exported_items(), "a7", lambda key: b""
            )
            begin(page, (tmp_path / f"{name}.html").as_uri())
            wait_for(page, "You: 0 done", "#progress")
            press(page, "1")
            press(page, "2")
            wait_for(page, "All done")
            with page.expect_download() as download:
                page.click("#save")
            download.value.save_as(tmp_path / f"{name}.json")
            assert import_answers(store, tmp_path / f"{name}.json") == (2, 2)
            if name == "b":
                with pytest.raises(DataError, match="another task file"):
                    import_answers(store, tmp_path / "a.json")
    context.close()


def test_a_page_without_a_server_saves_answers_that_can_be_imported(browser: Any, tmp_path: Path) -> None:
    path = image_task(tmp_path, 3)
    with closing(AnswerStore(path)) as store:
        read = TaskImages(store.locate_image).read
        write_page(tmp_path / "a7.html", store.settings, store.list_exported_items(), "a7", read)
        context = browser.new_context(viewport=PHONE, accept_downloads=True)
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        begin(page, (tmp_path / "a7.html").as_uri())
        until(page, "[...document.querySelectorAll('#options img')].every(i => i.naturalWidth)")
        press(page, "1")
        press(page, "3")
        page.wait_for_timeout(300)
        page.reload()  # a closed page keeps its answers
        page.wait_for_selector("dialog[open]")
        page.keyboard.press("Enter")
        wait_for(page, "You: 2 done", "#progress")
        page.keyboard.press("u")
        wait_for(page, "You: 1 done", "#progress")
        press(page, "3")
        wait_for(page, "You: 2 done", "#progress")
        press(page, "2")
        wait_for(page, "All done")
        with page.expect_download() as download:
            page.click("#save")
        saved = tmp_path / "saved.json"
        download.value.save_as(saved)
        assert not problems
        context.close()
        assert import_answers(store, saved) == (3, 3)
    rows = read_answers(path)
    assert set(rows["annotator"]) == {"a7"}
    assert (rows["answer"] == "none").sum() == 1


def test_a_page_without_a_server_runs_nothing_that_stands_in_the_data(browser: Any, tmp_path: Path) -> None:
    path = write_task(
        tmp_path / "t.db", [choose_item(1, [], f"</script><script>{RUN}</script><img src=x onerror={RUN}>")]
    )
    with closing(AnswerStore(path)) as store:
        write_page(tmp_path / "a.html", store.settings, store.list_exported_items(), "a", lambda key: b"")
    context = browser.new_context()
    page = context.new_page()
    begin(page, (tmp_path / "a.html").as_uri())
    assert page.inner_text("#caption").startswith("</script>")
    assert page.evaluate("document.documentElement.dataset.planted") is None
    context.close()
