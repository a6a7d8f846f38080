"""The page of `caramel explore` in a real browser: cells, filters, keys, widths, and captions that hold HTML."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from chromium import DESKTOP, PHONE
from explored import write_release, write_results

from caramel import cli

RUN = "document.documentElement.dataset.planted=1"
PLANTED = f'<img src=x onerror="{RUN}"><script>{RUN}</script></script><b>bold</b> {{{{ 7 * 7 }}}}'
CAPTIONS = {
    "replace_att": [(f"A red car number {n} on a road.", f"A blue car number {n} on a road.") for n in range(30)],
    "swap_obj": [("A cat beside a dog.", "A dog beside a cat."), ("The same text.", "the same text"), (PLANTED, "A plain text.")],
}  # fmt: skip
N = 33


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page on two models: `good` is right except on the last, `mixed` is right, wrong, tied by turns."""
    folder = tmp_path_factory.mktemp("explore")
    write_release(folder / "sugarcrepe", CAPTIONS)
    gaps = {"good": [1.0] * (N - 1) + [-1.0], "mixed": [(1.0, -1.0, 0.0)[n % 3] for n in range(N)]}
    results = write_results(folder / "results", folder / "sugarcrepe", gaps)
    ids = list(dict.fromkeys(results["instance_id"]))
    (folder / "audit").mkdir()
    pairs = pd.DataFrame({"pair_id": ids, "scorer": "best_blind_attacker", "gap": [1.0, -1.0, 0.0] * 11})
    pairs.to_parquet(folder / "audit/pairs.parquet")
    run_explore(folder, "page.html", "--audit", str(folder / "audit"))
    return folder / "page.html"


def run_explore(folder: Path, name: str, *options: str) -> None:
    arguments = ["explore", str(folder / "results"), "--data", str(folder), "--out", str(folder / name)]
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments, *options])
    assert not ended.value.code


@contextmanager
def opened(browser: Any, file: Path, size: dict[str, int] = DESKTOP, hash_part: str = "") -> Iterator[Any]:
    """Open the page; fail if its script fails or its policy refuses something."""
    context = browser.new_context(viewport=size)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(file.as_uri() + hash_part)
    page.wait_for_selector("article")
    yield page
    assert not errors
    context.close()


def count_matches(page: Any) -> int:
    return int(page.text_content("#heading").split()[0])


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_cell_opens_the_instances_behind_its_figure(
    browser: Any, page_file: Path, size: dict[str, int]
) -> None:
    with opened(browser, page_file, size) as page:
        assert page.text_content('#table a[aria-label^="good, replace:"]') == "100.0"
        page.click('#table a[aria-label^="mixed, swap_obj:"]')
        until(page, "document.querySelector('#heading').textContent.includes('mixed')")
        assert page.text_content("#heading") == "3 instances, mixed: 1 right, 1 wrong, 1 tied"
        assert page.locator("article").count() == 3
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider"
        image = page.locator("article img").first
        assert image.evaluate("(e) => e.decode().then(() => e.naturalWidth)") == 128
        assert page.locator("article").first.bounding_box()["width"] <= size["width"]


def test_differing_words_are_marked_in_both_captions(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file, hash_part="#subset=replace_att") as page:
        assert page.locator("article").first.locator("mark").all_text_contents() == ["red", "blue"]


def test_filters_select_by_subset_verdict_blind_defect_and_text(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file) as page:
        assert count_matches(page) == N
        page.click("summary")
        page.select_option('[name="verdict.mixed"]', "t")
        assert count_matches(page) == 11
        page.select_option('[name="verdict.good"]', "w")
        assert count_matches(page) == 1
        page.click("button[type=reset]")
        assert count_matches(page) == N
        page.select_option("[name=blind]", "s")
        assert count_matches(page) == 11
        page.select_option("[name=subset]", "swap")
        assert count_matches(page) == 1
        page.click("button[type=reset]")
        page.select_option("[name=defect]", "negative_equals_caption")
        assert count_matches(page) == 1
        assert "defect: negative_equals_caption" in page.text_content("article")
        page.click("button[type=reset]")
        page.fill("[name=q]", "NUMBER 7")
        assert count_matches(page) == 3, "7, 17 and 27: each word anywhere, in any case"
        assert page.evaluate("location.hash").endswith("q=NUMBER+7"), "the view has a link"


def test_corrected_instances_are_marked_with_their_correction_and_reason(
    browser: Any, page_file: Path
) -> None:
    errata = [
        {"instance": "swap_obj-1", "from": "the same text", "exclude": True, "reason": "equal texts"},
        {"instance": "replace_att-3", "from": "A blue car number 3 on a road.", "to": PLANTED, "reason": "wrong colour"},
    ]  # fmt: skip
    shared = {"benchmark": "sugarcrepe", "release": "made up", "field": "negative_caption"}
    folder = page_file.parent
    (folder / "errata.jsonl").write_text("\n".join(json.dumps(shared | row) for row in errata))
    run_explore(folder, "corrected.html", "--errata", str(folder / "errata.jsonl"))
    with opened(browser, folder / "corrected.html") as page:
        page.select_option("[name=corrected]", "yes")
        assert count_matches(page) == 2
        first, second = page.locator(".erratum").all_text_contents()
        old = "A blue car number 3 on a road."
        assert first == f"Erratum, hard negative {old} is corrected to {PLANTED}. Reason: wrong colour"
        assert second == "Erratum, hard negative excluded: the same text. Reason: equal texts"
        assert page.evaluate("document.documentElement.dataset.planted") is None
        page.select_option("[name=corrected]", "no")
        assert count_matches(page) == N - 2
        assert page.locator(".erratum").count() == 0
    with opened(browser, page_file) as page:
        assert page.locator("[name=corrected]").is_disabled(), "no errata were given"


def test_keys_move_between_table_instances_and_search(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file) as page:
        focus = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.name"
        for key in "jjjk":
            page.keyboard.press(key)
        assert page.evaluate(focus) == "Instance replace_att-1"
        page.keyboard.press("ArrowDown")
        assert page.evaluate(focus) == "Instance replace_att-2"
        for _ in range(27):
            page.keyboard.press("j")
        assert page.evaluate(focus) == "Instance replace_att-29", "beyond the cards that were listed first"
        page.keyboard.press("Escape")
        assert page.evaluate(focus).startswith("good, all")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert page.evaluate(focus).startswith("mixed, replace:")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('#heading').textContent.startsWith('30 instances, mixed')")
        page.keyboard.press("/")
        assert page.evaluate(focus) == "q"
        page.keyboard.type("jk")
        assert page.input_value("[name=q]") == "jk", "letters in the search are text"
        assert page.locator(".keys kbd").all_text_contents() == ["Enter", "j", "k", "/", "Esc"]


@pytest.fixture(scope="module")
def long_page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page on 250 instances."""
    folder = tmp_path_factory.mktemp("long")
    captions = [(f"A red car number {n} on a road.", f"A blue car number {n} on a road.") for n in range(250)]
    write_release(folder / "sugarcrepe", {"replace_att": captions})
    write_results(folder / "results", folder / "sugarcrepe", {"good": [1.0] * 250})
    run_explore(folder, "page.html")
    return folder / "page.html"


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_at_most_120_cards_are_on_the_page_and_all_can_be_reached(
    browser: Any, long_page_file: Path, size: dict[str, int]
) -> None:
    with opened(browser, long_page_file, size) as page:
        ids = "[...document.querySelectorAll('article h3')].map((e) => +e.textContent.split('-')[1])"
        shown: list[list[int]] = []
        for _ in range(3):
            for _ in range(30):
                page.evaluate("document.querySelector('#more').scrollIntoView()")
                page.wait_for_timeout(30)
                if "scroll" not in page.text_content("#more"):
                    break
            shown.append(page.evaluate(ids))
            if page.locator("#next").is_visible():
                page.click("#next")
        assert shown == [[*range(120)], [*range(120, 240)], [*range(240, 250)]]
        assert page.text_content("#more") == "241–250 of 250 are listed."
        page.click("#previous")
        assert page.evaluate(ids)[0] == 120
        page.fill("[name=q]", "number 7")
        assert page.evaluate(ids)[0] == 7, "a filter begins at the first page"
        assert not page.locator("#previous").is_visible()


def test_keys_go_on_across_pages(browser: Any, long_page_file: Path) -> None:
    with opened(browser, long_page_file) as page:
        focus = "document.activeElement.getAttribute('aria-label')"
        for _ in range(121):
            page.keyboard.press("j")
        assert page.evaluate(focus) == "Instance replace_att-120"
        page.keyboard.press("k")
        assert page.evaluate(focus) == "Instance replace_att-119"
        assert page.locator("article").count() == 120


def test_html_in_a_caption_is_text(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file, hash_part="#q=bold") as page:
        assert PLANTED in " ".join(page.text_content("article").split())
        assert page.locator("article b").count() == 2, "only the labels of the captions"
        assert page.evaluate("document.documentElement.dataset.planted") is None
    assert "<b>bold" not in page_file.read_text(encoding="utf-8")


def test_a_page_without_images_says_so(browser: Any, page_file: Path) -> None:
    folder = page_file.parent
    run_explore(folder, "bare.html", "--max-images", "0")
    with opened(browser, folder / "bare.html") as page:
        assert "The image is not in this file." in page.text_content("article")
        assert page.locator("[name=blind]").is_disabled(), "there was no audit"


def until(page: Any, script: str, within: float = 20.0) -> None:
    """Wait for a condition; Playwright's own way would need `unsafe-eval`, which the page forbids."""
    end = time.monotonic() + within
    while not page.evaluate(script):
        assert time.monotonic() < end, script
        page.wait_for_timeout(25)
