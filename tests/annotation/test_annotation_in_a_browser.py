"""The page in a real browser: by keyboard alone, on a desktop and on a phone, and when something fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from annotation_browser import DESKTOP, PHONE, opened, press, until, wait_for, wait_stored
from annotation_tasks import (
    compare_item,
    image_task,
    serving,
    text_item,
    write_task,
)

from caramel.annotation.items import Item, Option, Question

RUN = "document.documentElement.dataset.planted=1"


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


def test_the_tenth_option_has_the_key_0_and_those_beyond_have_none(browser: Any, tmp_path: Path) -> None:
    options = tuple(Option(str(n), caption=f"caption {n}") for n in range(12))
    path = write_task(tmp_path / "t.db", [Item("n", (Question("q", "Which?", options),))])
    with serving(path) as origin, opened(browser, origin) as page:
        keys = [b.get_attribute("aria-keyshortcuts") for b in page.query_selector_all("#options button")]
        assert keys == [*"1234567890", None, None]
        press(page, "0")
        rows = wait_stored(path, 1)
    assert json.loads(rows["order"][0])[9] == rows["answer"][0]


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
