"""Take the documentation's screenshots of MLflow's pages of a project, after its default profile ran:

    uv run --no-project --with playwright --with pillow --with markdown python docs/screenshots.py PROJECT --tag pin.v1.0

or of the page with the differences of two versions, or of a release's datasheet:

    … docs/screenshots.py PROJECT --diff ONE TWO
    … docs/screenshots.py PROJECT --datasheet PIN

or of the annotation page, on a desktop and on a phone:

    … docs/screenshots.py PROJECT --annotation

Needs Chromium (`apt-get install chromium`) and a `caramel` on the PATH; only playwright and markdown are
downloaded.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

PORT = 5077
UI = f"http://127.0.0.1:{PORT}"
TO = Path(__file__).parent / "pictures"
WAIT = 15.0  # seconds until all figures of a page are drawn
STYLE = "<style>body {font: 15px/1.5 sans-serif} main {max-width: 900px; margin: 2em auto}</style>"
SIZE = {"width": 1500, "height": 900}


def runs_url(filter_: str, **more: str) -> str:
    """Return the URL of the runs of a filter, best first; in the order of creation, MLflow folds them under parents."""
    asked = {"searchFilter": filter_, "orderByKey": "metrics.`group`", "orderByAsc": "false", **more}
    return f"{UI}/#/experiments/1/runs?" + "&".join(f"{name}={quote(value)}" for name, value in asked.items())


def taken(page: Page, name: str, url: str) -> None:
    """Write a screenshot of a page in few colours, so that the repository stays small."""
    page.goto("about:blank")
    page.goto(url)
    page.wait_for_load_state("load")
    time.sleep(
        WAIT if url.startswith(UI) else 1
    )  # MLflow's page polls for new runs, so its requests never end
    saved(page, name)


def saved(page: Page, name: str) -> None:
    """Write a screenshot of the current page."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").resize((1200, 720))
    picture.quantize(96).save(TO / f"{name}.png", optimize=True)


def ids(filter_: str) -> list[str]:
    """Return the runs of a filter from MLflow's own interface."""
    asked = json.dumps({"experiment_ids": ["1"], "filter": filter_, "max_results": 100}).encode()
    request = Request(f"{UI}/ajax-api/2.0/mlflow/runs/search", asked, {"Content-Type": "application/json"})
    with urlopen(request) as answer:
        return [run["info"]["run_id"] for run in json.load(answer).get("runs", [])]


def pictures(page: Page, tag: str) -> None:
    """Take all screenshots."""
    page.goto(UI)
    page.evaluate("""() => { localStorage.setItem('mlflow.workflowType_v1', '"machine_learning"');
                             for (const key of ['mlflow.assistant.panelOpen', 'mlflow.assistant.fab.autoOpenedOnFirstLoad'])
                               localStorage.setItem(key + '_v1', key.endsWith('Open') ? 'false' : 'true'); }""")
    taken(page, "runs", runs_url('tags.stage = "finetune"'))
    taken(page, "variants", runs_url('tags.level = "variant"', compareRunsMode="CHART"))
    seeds = ids('tags.stage = "finetune" and params.variant = "trohn_img"')
    asked = {
        "runs": seeds,
        "experiments": ["1"],
        "metric": "loss",
        "plot_metric_keys": ["loss"],
        "plot_layout": {},
    }
    query = "&".join(f"{name}={quote(json.dumps(value))}" for name, value in asked.items())
    taken(page, "curves", f"{UI}/#/metric?{query}&x_axis=step")
    taken(page, "run", f"{UI}/#/experiments/1/runs/{seeds[0]}")
    taken(page, "pin", runs_url(f'tags.`{tag}` != ""'))


def difference(page: Page, project: Path, one: str, two: str) -> None:
    """Take the page of the differences of two versions: its head, and added and removed images."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch, "difference.html")
        subprocess.run(["caramel", "diff", one, two, "--page", str(place)], cwd=project, check=True)
        taken(page, "difference", place.as_uri())
        for picture in page.locator("img").all()[:1]:
            picture.evaluate(
                "it => window.scrollTo(0, it.getBoundingClientRect().top + window.scrollY - 150)"
            )
            saved(page, "difference_pictures")


def datasheet(page: Page, project: Path, pin: str) -> None:
    """Take the datasheet of a release, rendered from Markdown."""
    from markdown import markdown

    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "release")
        subprocess.run(["caramel", "release", pin, "--out", str(out), "--no-audit"], cwd=project, check=True)
        text = markdown((out / "DATASHEET.md").read_text(encoding="utf-8"), extensions=["tables"])
        place = Path(scratch, "datasheet.html")
        place.write_text(f"<meta charset='utf-8'>{STYLE}<main>{text}</main>", encoding="utf-8")
        taken(page, "datasheet", place.as_uri())


def annotation(browser: Browser, project: Path) -> None:
    """Take the annotation page: a task on a desktop, and three on a phone, side by side."""
    with tempfile.TemporaryDirectory() as scratch:
        phones = []
        for task in ("choose", "fits", "baseline"):
            db = Path(scratch, f"{task}.db")
            subprocess.run(
                ["caramel", "annotate", "make", task, "--out", str(db), "--items", "40"],
                cwd=project,
                check=True,
            )
            command = ["caramel", "annotate", str(db), "--port", "0"]
            server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                link = re.search(r"http\S+", server.stdout.readline())[0]
                phones.append(annotated(browser, link, {"width": 390, "height": 780}))
                if task == "fits":
                    picture = annotated(browser, link, {"width": 1200, "height": 720})
                    picture.quantize(96).save(TO / "annotation.png", optimize=True)
            finally:
                server.send_signal(signal.SIGINT)
                server.wait()
        whole = Image.new("RGB", (3 * 390 + 40, 780), "#888888")
        for number, picture in enumerate(phones):
            whole.paste(picture, (number * 410, 0))
        whole.quantize(96).save(TO / "annotation_phone.png", optimize=True)


def annotated(browser: Browser, link: str, size: dict[str, int]) -> Image.Image:
    """Answer two items of a task and return a screenshot of the third."""
    context = browser.new_context(viewport=size)
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Enter")
    for _ in range(2):
        page.wait_for_selector("#options button")
        time.sleep(1)
        page.keyboard.press("1")
    time.sleep(1)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    context.close()
    return picture


def main() -> None:
    """Serve the pages while the screenshots are taken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", type=Path)
    parser.add_argument("--tag", default="pin.v1.0")
    parser.add_argument("--diff", nargs=2, metavar=("ONE", "TWO"))
    parser.add_argument("--datasheet", metavar="PIN")
    parser.add_argument("--annotation", action="store_true")
    asked = parser.parse_args()
    TO.mkdir(exist_ok=True)
    if asked.diff or asked.datasheet or asked.annotation:
        with sync_playwright() as browsers:
            browser = browsers.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = browser.new_page(viewport=SIZE)
            if asked.diff:
                difference(page, asked.project, *asked.diff)
            if asked.datasheet:
                datasheet(page, asked.project, asked.datasheet)
            if asked.annotation:
                annotation(browser, asked.project)
            browser.close()
        return
    server = subprocess.Popen(["caramel", "ui", "--port", str(PORT)], cwd=asked.project)
    try:
        for _ in range(120):
            try:
                urlopen(UI).close()
                break
            except OSError:
                time.sleep(1)
        with sync_playwright() as browsers:
            browser = browsers.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            pictures(browser.new_page(viewport=SIZE), asked.tag)
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)  # like Ctrl-C: it ends its child processes
        server.wait()


if __name__ == "__main__":
    main()
