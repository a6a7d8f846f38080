"""The page in a real browser when something fails: no answer is lost, none is doubled, and the annotator is told."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from annotation_browser import begin, opened, press, until, wait_for, wait_stored
from annotation_tasks import (
    SECRET,
    Client,
    image_task,
    serving,
    text_item,
    write_task,
)

from caramel.annotation.accounts import hash_secret
from caramel.annotation.answers import read_answers
from caramel.annotation.items import Item, Option, Question


def test_a_broken_image_is_told_and_the_item_can_be_skipped(browser: Any, tmp_path: Path) -> None:
    path = image_task(tmp_path, 1)
    (shard,) = (tmp_path / "images").glob("*.parquet")
    data = bytearray(shard.read_bytes())
    data[data.index(b"\x89PNG") + 40] ^= 255
    shard.write_bytes(data)
    with serving(path) as origin, opened(browser, origin) as page:
        page.wait_for_selector(".broken")
        assert "cannot be shown" in page.inner_text(".broken")
        page.keyboard.press("s")
        page.keyboard.press("2")
        wait_stored(path, 1)


def test_two_tabs_of_one_annotator_lose_and_double_nothing(browser: Any, tmp_path: Path) -> None:
    path = image_task(tmp_path, 4)
    with serving(path) as origin, opened(browser, origin) as first:
        second = first.context.new_page()
        begin(second, origin)
        first.bring_to_front()
        press(first, "1")  # the first tab does not know yet
        wait_for(first, "another tab")
        wait_stored(path, 1)
        second.bring_to_front()
        for _ in range(4):
            press(second, "2")
        wait_for(second, "All done")
    rows = wait_stored(path, 4)
    assert rows["item_id"].is_unique


def serve_elsewhere(path: Path, accounts: Path, port: int) -> tuple[subprocess.Popen[str], str]:
    """Start `caramel annotate` as a process; return it and its origin."""
    code = "import sys; from caramel.cli import main; main(sys.argv[1:])"
    options = ["annotate", str(path), "--accounts", str(accounts), "--port", str(port)]
    process = subprocess.Popen([sys.executable, "-c", code, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    link = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=SECRET", process.stdout.readline())
    assert link
    return process, link[1]


def test_a_killed_server_loses_no_answer_and_the_page_goes_on(browser: Any, tmp_path: Path) -> None:
    path, accounts = image_task(tmp_path, 6), tmp_path / "accounts.json"
    accounts.write_text(json.dumps({"annotators": {"me": hash_secret(SECRET)}}))
    server, origin = serve_elsewhere(path, accounts, 0)
    try:
        with opened(browser, origin) as page:
            press(page, "1")
            wait_stored(path, 1)
            until(page, "readPending().length === 0")
            server.kill()
            server.wait()
            press(page, "1")
            press(page, "1")
            wait_for(page, "not stored yet", "#alert")
            assert len(read_answers(path)) == 1
            server, _ = serve_elsewhere(path, accounts, int(origin.rpartition(":")[2]))
            wait_for(page, "Which image")
            wait_stored(path, 3)
            until(page, "document.querySelector('#alert').hidden")
            server.kill()
            server.wait()
            press(page, "1")
            page.close(run_before_unload=False)
            server, _ = serve_elsewhere(path, accounts, int(origin.rpartition(":")[2]))
    finally:
        server.kill()
        server.wait()
    rows = read_answers(path)
    assert len(rows) == 3
    assert rows["item_id"].is_unique


def test_an_answer_of_a_closed_page_is_sent_when_it_is_opened_again(browser: Any, tmp_path: Path) -> None:
    path = image_task(tmp_path, 3)
    with serving(path) as origin, opened(browser, origin) as page:
        page.route("**/api/answer", lambda route: route.abort())
        press(page, "1")
        wait_for(page, "not stored yet", "#alert")
        again = page.context.new_page()
        page.close()
        begin(again, origin)
        wait_stored(path, 1)
        press(again, "1")
        press(again, "1")
        wait_for(again, "All done")
    wait_stored(path, 3)


def test_a_browser_that_sends_an_answer_again_doubles_nothing(browser: Any, tmp_path: Path) -> None:
    path = image_task(tmp_path, 3)
    with serving(path) as origin, opened(browser, origin) as page:

        def lose_reply(route: Any) -> None:
            route.fetch()
            route.abort()

        page.route("**/api/answer", lose_reply, times=1)
        press(page, "1")
        wait_for(page, "not stored yet", "#alert")
        page.wait_for_selector("#alert", state="hidden")
        press(page, "1")
        press(page, "1")
        wait_for(page, "All done")
    wait_stored(path, 3)


def test_an_answer_waits_in_the_browser_while_another_task_is_served(browser: Any, tmp_path: Path) -> None:
    """Both tasks have the same instructions, the same items and the same annotator."""
    paths = [write_task(tmp_path / f"{name}.db", [text_item(n) for n in range(3)]) for name in "ab"]
    with ExitStack() as stack:
        with serving(paths[0]) as origin:
            page = stack.enter_context(opened(browser, origin))
            page.route("**/api/answer", lambda route: route.abort())
            press(page, "1")
            wait_for(page, "1 answer is kept in this browser", "#alert")
        page.unroute_all()
        port = int(origin.rpartition(":")[2])
        with serving(paths[1], port=port):
            wait_for(page, "Another task is served here now")
            wait_for(page, "1 answer is kept in this browser", "#alert")
            begin(page, origin)
            wait_for(page, "1 answer to another task is kept", "#status")
            press(page, "1")
            wait_stored(paths[1], 1)
        with serving(paths[0], port=port):
            begin(page, origin)
            wait_stored(paths[0], 1)
    assert [len(read_answers(path)) for path in paths] == [1, 1]


def test_a_refused_answer_is_kept_and_told_and_the_page_goes_on(browser: Any, tmp_path: Path) -> None:
    draft = Question("text", "Correct the text.", (Option("draft", "A ball."),), editable=True)
    path = write_task(tmp_path / "t.db", [Item(f"p{n}", (draft,)) for n in range(2)], task="correct")
    with serving(path) as origin, opened(browser, origin) as page:
        until(page, "!document.querySelector('#editor').hidden")
        page.evaluate("queue.pop()")  # nothing is there ahead: only a reply can bring the next item
        page.evaluate("document.querySelector('#text').value = 'half \\ud800'")
        page.keyboard.press("Control+Enter")
        wait_for(page, "1 answer was refused and not stored", "#refusal")
        until(page, "queue.length > 0")
        page.wait_for_timeout(3500)  # longer than until an answer is sent again
        assert page.is_visible("#refused")
        assert page.evaluate("readRefused().map((row) => row.responses[0].charCodeAt(5))") == [0xD800]
        with page.expect_download() as download:
            page.click("#save-refused")
        assert "half" in Path(download.value.path()).read_text(encoding="utf-8")
        for _ in range(2):
            page.focus("#text")
            page.keyboard.press("Control+Enter")
            page.wait_for_timeout(300)
        wait_for(page, "All done")
        wait_stored(path, 2)
        page.reload()
        page.wait_for_selector("#refused")
        page.keyboard.press("Enter")
        page.click("#remove-refused")
        assert page.is_hidden("#refused")


def test_who_lost_access_is_told_and_asks_no_more(browser: Any, tmp_path: Path) -> None:
    path, calls = image_task(tmp_path, 3), []
    with serving(path) as origin, opened(browser, origin) as page:
        page.context.clear_cookies()
        page.on("request", lambda request: calls.append(request.url))
        press(page, "1")
        wait_for(page, "not valid", "#alert")
        count = len(calls)
        page.wait_for_timeout(3500)
        assert len(calls) == count
        assert "Trying again" not in page.inner_text("#alert")
        begin(page, f"{origin}/?token={SECRET}")
        wait_stored(path, 1)


def test_a_lost_reply_to_undo_takes_back_one_answer(browser: Any, tmp_path: Path) -> None:
    path = image_task(tmp_path, 5)
    with serving(path) as origin, opened(browser, origin) as page:
        for n in range(3):
            press(page, "1")
            wait_stored(path, n + 1)

        def lose_reply(route: Any) -> None:
            route.fetch()
            route.abort()

        until(page, "progress.answered === 3")
        page.route("**/api/undo", lose_reply, times=1)
        page.keyboard.press("u")
        wait_for(page, "Try again", "#alert")
        page.keyboard.press("u")
        wait_for(page, "taken back", "#status")
        wait_stored(path, 2)


def test_a_page_that_waits_says_so_once_and_goes_on(browser: Any, tmp_path: Path) -> None:
    """Screen readers repeat what gets the focus again."""
    path = write_task(tmp_path / "t.db", [text_item(n) for n in range(2)], lease_minutes=0.05)
    with serving(path, {"other": "other-secret", "me": SECRET}) as origin:
        Client(origin, "other-secret", page="other").start()  # holds both items for three seconds
        with opened(browser, origin) as page:
            wait_for(page, "Nothing to do right now")
            page.focus("#help")
            page.evaluate("clearTimeout(look); fill()")
            page.wait_for_timeout(500)
            assert page.evaluate("document.activeElement.id") == "help"
            page.wait_for_timeout(3000)
            page.evaluate("fill()")
            wait_for(page, "Which fits?")
            press(page, "1")
            press(page, "1")
            wait_for(page, "All done")
            wait_stored(path, 2)
