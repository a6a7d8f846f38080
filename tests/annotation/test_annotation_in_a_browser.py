"""The page in a real browser: by keyboard alone, on a desktop and on a phone, and when something fails."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from annotation_tasks import SECRET, choose_item, compare_item, image_task, serving, text_item, write_task
from simulated_annotators import Simulated, choose_left, erring

from caramel.annotation.accounts import hash_secret
from caramel.annotation.answers import read_answers
from caramel.annotation.exchange.html_page import write_page
from caramel.annotation.exchange.importing import import_answers
from caramel.annotation.items import Item, Option, Question
from caramel.annotation.page_images import TaskImages
from caramel.annotation.store import AnswerStore

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
RUN = "document.documentElement.dataset.planted=1"
WAIT = 20_000  # milliseconds


@contextmanager
def opened(browser: Any, origin: str, size: dict[str, int] = DESKTOP, secret: str = SECRET) -> Iterator[Any]:
    """Open a task in a browser of its own, past the instructions; fail if the page's script fails."""
    context = browser.new_context(viewport=size)
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_default_timeout(WAIT)
    begin(page, f"{origin}/?token={secret}")
    yield page
    assert not errors
    context.close()


def until(page: Any, script: str, arg: Any = None, within: float = 20.0) -> None:
    """Wait for a script's condition. Playwright's own way would need `unsafe-eval`, which the page forbids."""
    end = time.monotonic() + within
    while not page.evaluate(script, arg):
        assert time.monotonic() < end, script
        page.wait_for_timeout(25)


def begin(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]", state="detached")
    until(page, "document.querySelector('#question').textContent !== 'Loading …'")


def wait_for(page: Any, text: str, where: str = "#question") -> None:
    until(page, "([where, text]) => document.querySelector(where).textContent.includes(text)", [where, text])


def press(page: Any, key: str) -> None:
    """Press the key of an option once there are options: before that, keys do nothing."""
    until(page, "document.querySelector('#options button') !== null")
    page.keyboard.press(key)


def wait_stored(path: Path, count: int) -> Any:
    """Return the answers once there are so many."""
    for _ in range(200):
        rows = read_answers(path)
        if len(rows) >= count:
            break
        time.sleep(0.05)
    assert len(rows) == count
    return rows


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_task_is_done_by_keyboard_alone(browser: Any, tmp_path: Path, size: dict[str, int]) -> None:
    path = image_task(tmp_path, 5)
    with serving(path) as origin, opened(browser, origin, size) as page:
        for key in "5123":  # 5 is no option
            press(page, key)
        wait_stored(path, 3)
        page.keyboard.press("u")
        wait_for(page, "taken back", "#status")
        wait_stored(path, 2)
        page.keyboard.press("s")
        page.wait_for_selector("#skipping[open]")
        page.keyboard.press("2")
        wait_stored(path, 3)
        page.keyboard.press("?")
        page.wait_for_selector("#instructions[open]")
        page.keyboard.press("Escape")
        press(page, "3")
        press(page, "3")
        wait_for(page, "All done")
        rows = wait_stored(path, 5)
        assert page.inner_text("#progress").startswith("You: 5 done")
    assert rows["skipped"].dropna().tolist() == ["An image is broken or missing"]
    assert (rows["answer"] == "none").sum() == 2
    assert rows["seconds"].between(0, 60).all()
    for row in rows.dropna(subset="answer").itertuples():
        assert row.answer in json.loads(row.order)


def test_several_questions_and_texts_are_answered_by_keyboard(browser: Any, tmp_path: Path) -> None:
    draft = Question(
        "text", "Correct the text.", (Option("draft", "A ball red."),), caption="A red ball.", editable=True
    )
    path = write_task(tmp_path / "t.db", [compare_item(1), Item("p1", (draft,))], task="correct")
    with serving(path) as origin, opened(browser, origin) as page:
        for _ in range(2):
            if page.is_visible("#editor"):
                page.keyboard.press("Tab")
                page.focus("#text")
                page.keyboard.press("End")
                page.keyboard.type(" <b>1 u s ?</b>")
                page.keyboard.press("Control+Enter")
            else:
                press(page, "1")
                wait_for(page, "Question 2", "#step")
                page.keyboard.press("u")
                wait_for(page, "Question 1", "#step")
                press(page, "2")
                press(page, "1")
        wait_for(page, "All done")
        rows = wait_stored(path, 2).set_index("item_id")
    assert rows.loc["p1", "answer"] == "A ball red. <b>1 u s ?</b>"
    order = json.loads(rows.loc["a1|b1", "order"])
    answer = json.loads(rows.loc["a1|b1", "answer"])
    assert answer == {"plausible": order["plausible"][1], "grammatical": order["grammatical"][0]}


def test_the_images_of_the_next_item_are_loaded_ahead(browser: Any, tmp_path: Path) -> None:
    path = image_task(tmp_path, 4)
    with serving(path) as origin, opened(browser, origin) as page:
        until(
            page,
            "performance.getEntriesByType('resource').filter(e => e.name.includes('/image/')).length >= 4",
        )
        press(page, "1")
        loaded = "[...document.querySelectorAll('#options img')].every(i => i.complete && i.naturalWidth)"
        until(page, loaded, within=2)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_fits_its_window_and_everything_has_a_name(
    browser: Any, tmp_path: Path, size: dict[str, int]
) -> None:
    keys_task = image_task(tmp_path, 2)
    with serving(keys_task) as origin, opened(browser, origin, size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        for control in page.query_selector_all("button:visible, textarea:visible, input:visible"):
            assert control.evaluate(
                "e => (e.textContent + (e.ariaLabel || '') + (e.labels?.[0]?.textContent || '')).trim()"
            )
            box = control.bounding_box()
            assert min(box["width"], box["height"]) >= 40, "large enough for a finger"
        assert all(image.get_attribute("alt") for image in page.query_selector_all("img"))
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
        assert outline == "3px", "the focus is visible"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_borders_have_contrast(browser: Any, tmp_path: Path, scheme: str) -> None:
    """WCAG 2.2: 4.5 for text (1.4.3), 3 for borders and the focus (1.4.11)."""
    path = write_task(tmp_path / "t.db", [text_item(1)])
    with serving(path) as origin, opened(browser, origin) as page:
        page.emulate_media(color_scheme=scheme)
        names = ["back", "text", "soft", "line", "panel", "main", "on-main", "warn-back", "warn", "focus"]
        value = "n => getComputedStyle(document.documentElement).getPropertyValue('--' + n).trim()"
        colors = {name: luminance(page.evaluate(value, name)) for name in names}
    pairs = [
        ("text", "back"),
        ("soft", "back"),
        ("text", "panel"),
        ("on-main", "main"),
        ("warn", "warn-back"),
    ]
    for one, two in pairs:
        assert contrast(colors[one], colors[two]) >= 4.5, (one, two)
    for one in ("line", "focus", "main"):
        assert contrast(colors[one], colors["back"]) >= 3, one


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: float, two: float) -> float:
    return (max(one, two) + 0.05) / (min(one, two) + 0.05)


def test_what_stands_in_captions_and_instructions_is_text(browser: Any, tmp_path: Path) -> None:
    planted = f'<img src=x onerror="{RUN}"><script>{RUN}</script><b>bold</b>'
    options = (Option("0", caption=planted), Option("1", caption=planted))
    items = [Item(f"n{n}{planted}", (Question("q", planted, options, caption=planted),)) for n in range(2)]
    path = write_task(tmp_path / "t.db", items, guideline=f"{planted}\n\n{planted}")
    with serving(path) as origin, opened(browser, origin) as page:
        assert page.inner_text("#caption") == planted
        assert page.evaluate("document.documentElement.dataset.planted") is None
        assert page.query_selector("b, #main script, #options img") is None
        press(page, "1")
        wait_stored(path, 1)


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
            until(page, "localStorage.length === 0 || !JSON.parse(Object.values(localStorage)[0]).length")
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


def test_a_page_of_another_site_cannot_answer(browser: Any, tmp_path: Path) -> None:
    path = image_task(tmp_path, 2)
    site = "http://site.example/"
    with serving(path) as origin, opened(browser, origin) as page:
        page.context.route(
            site, lambda route: route.fulfill(body="<!doctype html>", content_type="text/html")
        )
        other = page.context.new_page()
        other.goto(site)
        send = """([origin, type]) => fetch(`${origin}/api/next`, {method: "POST", credentials: "include", body: "{}",
            mode: type === "application/json" ? "cors" : "no-cors", headers: {"Content-Type": type}})
            .then((reply) => reply.type, () => "refused")"""
        assert other.evaluate(send, [origin, "application/json"]) == "refused"
        other.evaluate(send, [origin, "text/plain"])
        framed = """origin => new Promise((resolve) => { const frame = document.createElement("iframe"); frame.src = origin;
            frame.onload = () => { try { resolve(frame.contentDocument === null ? "foreign" : "own"); } catch { resolve("foreign"); } };
            document.body.append(frame); })"""
        assert other.evaluate(framed, origin) == "foreign"
        assert all("Annotation" not in frame.title() for frame in other.frames)
        press(page, "1")
        wait_stored(path, 1)


def test_an_annotator_who_fails_the_qualification_is_told(browser: Any, tmp_path: Path) -> None:
    options = (Option("yes", caption="Yes", fixed=True), Option("no", caption="No", fixed=True))
    items = [
        Item(f"n{n}", (Question("true", "True?", options),), gold="yes" if n < 2 else None) for n in range(4)
    ]
    path = write_task(tmp_path / "t.db", items, roles={"n0": "qualification", "n1": "qualification"})
    with serving(path) as origin, opened(browser, origin) as page:
        press(page, "2")
        press(page, "2")
        wait_for(page, "too often")
    wait_stored(path, 2)


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


def test_what_simulated_annotators_meant_is_what_is_stored(browser: Any, tmp_path: Path) -> None:
    items = {item.item_id: item for item in map(text_item, range(24))}
    truth = {name: "negative" if int(name[1:]) % 3 == 0 else "positive" for name in items}
    people = [
        Simulated("left", choose_left),
        Simulated("errs", erring(0.25)),
        Simulated("late", erring(1.0, after=12)),
    ]
    path = write_task(tmp_path / "t.db", [*items.values()], overlap=3, seed=3)
    with serving(path, {person.name: f"secret-of-{person.name}" for person in people}) as origin:
        for person in people:
            with opened(browser, origin, secret=f"secret-of-{person.name}") as page:
                person.work(page, items, truth, seed=3)
        rows = wait_stored(path, 72)
    for person in people:
        stored = rows[rows["annotator"] == person.name].set_index("item_id")
        assert dict(stored["answer"]) == person.meant
    left, late = (rows[rows["annotator"] == name] for name in ("left", "late"))
    assert all(
        json.loads(order)[0] == answer for order, answer in zip(left["order"], left["answer"], strict=True)
    )
    assert (late["answer"] != late["item_id"].map(truth)).sum() == 12
