"""Simulated annotators with known habits answer on the page, in a real browser by its keys: is what they meant stored?

    python bench/annotators_in_browsers.py --items 200 --out answers.parquet

The annotators: three who err in 5, 15 and 30 % of the items, one who errs in 40 % after the first half, one who always takes
the first option, and one who clicks at random. All see all items. Prints the set and the measured error rates with their 95 %
intervals (Wilson), and the share of first options. `caramel annotate agreement` reads the answers.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from annotation_tasks import serving, text_item, write_task
from playwright.sync_api import Browser, sync_playwright
from simulated_annotators import Simulated, choose_at_random, choose_left, erring

from caramel.annotation.answers import read_answers
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.io import write_table
from caramel.utils.stats import wilson_interval

SEED = 3


def work_in_browser(browser: Browser, origin: str, person: Simulated, count: int) -> None:
    """Let one annotator do the whole task in a browser of its own."""
    items = {item.item_id: item for item in map(text_item, range(count))}
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{origin}/?token={person.name}-secret")
    page.wait_for_url(re.compile("/$"))
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Enter")
    person.work(page, items, {name: find_truth(name) for name in items}, SEED)
    page.wait_for_timeout(500)
    context.close()


def find_truth(item_id: str) -> str:
    """Return the right answer of an item: two in three have the positive image."""
    return "negative" if int(item_id[1:]) % 3 == 0 else "positive"


def main() -> None:
    """Run the annotators one after the other, and print what was stored."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    people = {
        Simulated("err-05", erring(0.05)): 0.05,
        Simulated("err-15", erring(0.15)): 0.15,
        Simulated("err-30", erring(0.3)): 0.3,
        Simulated("tired", erring(0.4, after=options.items // 2)): 0.2,
        Simulated("left", choose_left): None,
        Simulated("random", choose_at_random): 0.75,
    }
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        items = [text_item(number) for number in range(options.items)]
        path = write_task(Path(scratch, "task.db"), items, overlap=len(people), seed=SEED)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with serving(path, {person.name: f"{person.name}-secret" for person in people}) as origin:
            for person in people:
                work_in_browser(browser, origin, person, options.items)
        browser.close()
        rows = read_answers(path)
    if options.out:
        write_table(ANNOTATIONS, rows, options.out)
    lost = 0
    for person, rate in people.items():
        stored = rows[rows["annotator"] == person.name].set_index("item_id")
        lost += dict(stored["answer"]) != person.meant
        wrong = sum(answer != find_truth(str(name)) for name, answer in stored["answer"].items())
        low, high = (float(end) for end in wilson_interval(wrong / len(stored), len(stored)))
        first = sum(
            order.startswith(f'["{answer}"')
            for order, answer in zip(stored["order"], stored["answer"], strict=True)
        )
        known = "–" if rate is None else f"{rate:.2f}"
        print(
            f"{person.name:8} {len(stored)} answers, errors set {known}, measured {wrong / len(stored):.2f} "
            f"[{low:.2f}, {high:.2f}], first option {first / len(stored):.2f}"
        )
    print(
        f"{lost} annotators with an answer other than meant; {len(rows)} answers of {len(people) * options.items}"
    )
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
