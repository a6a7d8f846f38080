"""Simulated annotators with known habits use the page, in a real browser by its keys: do the estimates cover the truth?

    python bench/annotators_in_browsers.py --items 200 --instances 120 --out answers.parquet

Two tasks:

- `fits`: three annotators who err in 5, 15 and 30 % of the items, one who errs in 10 % and clicks at random from the middle on,
  one who always takes the first option, and one who clicks at random. All judge all items.
- `baseline`: four annotators who err in 10 % of the queries share the instances.

Prints estimates with their 95 % intervals beside the truth: error rates, kappa and alpha of those who err at one rate, and the
human baseline. The exit code is 1 if a stored answer is not the one that was meant, if more intervals miss the truth than
chance explains (one study in a hundred), if a bad annotator is not found, or if a good one is taken for a bad one.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import simulated_study as study
from playwright.sync_api import Browser, sync_playwright
from simulated_annotators import Simulated, choose_at_random, choose_left, erring, tired

from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.io import write_table

GOOD = {"err-05": 0.05, "err-15": 0.15, "err-30": 0.3}
BAD = {"tired": "tired", "left": "position", "random": "random"}  # flag by annotator
RATE = 0.1  # of errors in the baseline


def judge_items(browser: Browser, folder: Path, count: int, out: Path | None) -> list[str]:
    """Run task `fits`, print its estimates, and return what is wrong."""
    people = [
        *(Simulated(name, erring(rate)) for name, rate in GOOD.items()),
        Simulated("tired", tired(erring(0.1), after=count // 2)),
        Simulated("left", choose_left),
        Simulated("random", choose_at_random),
    ]
    path, items, truth = study.make_fits(folder, count, len(people))
    answers = study.judge_in_browser(browser, path, people, items, truth)
    if out:
        write_table(ANNOTATIONS, answers, out)
    estimates = [*study.estimate_errors(answers, truth, GOOD), *study.estimate_kappas(answers, GOOD)]
    return [
        *check_estimates(estimates),
        *study.judge_annotators(answers, BAD),
        *(f"{name} has an answer that was not meant" for name in study.list_lost(answers, people)),
    ]


def judge_instances(browser: Browser, folder: Path, count: int) -> list[str]:
    """Run task `baseline`, print its estimates, and return what is wrong."""
    people = [Simulated(f"person-{number}", erring(RATE)) for number in range(4)]
    path, items, truth, instances, images = study.make_baseline(folder, count)
    answers = study.judge_in_browser(browser, path, people, items, truth, each=-(-count // len(people)))
    lost = study.list_lost(answers, people)
    return [
        *check_estimates([*study.estimate_baseline(answers, instances, images, RATE)]),
        *(f"{name} has an answer that was not meant" for name in lost),
        *([] if len(answers) == count else [f"{len(answers)} answers of {count}"]),
    ]


def check_estimates(estimates: list[study.Estimate]) -> list[str]:
    """Print estimates, and return what is wrong if more of them miss the truth than chance explains."""
    for estimate in estimates:
        print(estimate)
    misses, allowed = (
        sum(not estimate.covers for estimate in estimates),
        study.count_allowed_misses(len(estimates)),
    )
    print(f"{misses} of {len(estimates)} intervals miss the truth; at most {allowed} are expected")
    return [f"{misses} intervals miss the truth"] if misses > allowed else []


def main() -> None:
    """Run both tasks, and say what is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument(
        "--instances", type=int, default=120, help="at most 128: their images differ in colour"
    )
    parser.add_argument("--out", type=Path, help="table of answers of task `fits`")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        problems = judge_items(browser, Path(scratch), options.items, options.out)
        problems += judge_instances(browser, Path(scratch), options.instances)
        browser.close()
    print("\n".join(problems) or "Nothing is wrong.")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
