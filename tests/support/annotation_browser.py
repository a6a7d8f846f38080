"""The annotation page in a real browser: open it, press keys, wait for what it shows and for what is stored."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from annotation_tasks import (
    SECRET,
)

from caramel.annotation.answers import read_answers

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
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
        assert time.monotonic() < end, f"{script}\n{arg}\nThe page says: {page.inner_text('body')}"
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
