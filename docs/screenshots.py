"""Takes the pictures of docs/comparing.md from MLflow's pages, in a real browser, of a project in which the default profile ran:

    uv run --no-project --with playwright --with pillow python docs/screenshots.py PROJECT --tag pin.v1.0

Needs Chromium (`apt-get install chromium`) and a `caramel` on the PATH; nothing is fetched but playwright.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

from PIL import Image
from playwright.sync_api import Page, sync_playwright

PORT = 5077
UI = f"http://127.0.0.1:{PORT}"
TO = Path(__file__).parent / "pictures"
WAIT = 15.0  # seconds until all figures of a page are drawn
SIZE = {"width": 1500, "height": 900}


def runs_url(filter_: str, **more: str) -> str:
    """Return the address of the table of runs with a filter."""
    asked = {"searchFilter": filter_, **more}
    return f"{UI}/#/experiments/1/runs?" + "&".join(f"{name}={quote(value)}" for name, value in asked.items())


def taken(page: Page, name: str, url: str) -> None:
    """Write a picture of a page, in few colours, so that the repository stays small."""
    page.goto("about:blank")
    page.goto(url)
    page.wait_for_load_state("load")
    time.sleep(WAIT)  # the page goes on asking for new runs, so that no end of its requests can be waited for
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").resize((1200, 720))
    picture.quantize(96).save(TO / f"{name}.png", optimize=True)


def ids(filter_: str) -> list[str]:
    """Return the runs of a filter, by MLflow's own interface."""
    asked = json.dumps({"experiment_ids": ["1"], "filter": filter_, "max_results": 100}).encode()
    request = Request(f"{UI}/ajax-api/2.0/mlflow/runs/search", asked, {"Content-Type": "application/json"})
    with urlopen(request) as answer:
        return [run["info"]["run_id"] for run in json.load(answer).get("runs", [])]


def pictures(page: Page, tag: str) -> None:
    """Take all of them."""
    page.goto(UI)
    page.evaluate("""() => { localStorage.setItem('mlflow.workflowType_v1', '"machine_learning"');
                             for (const key of ['mlflow.assistant.panelOpen', 'mlflow.assistant.fab.autoOpenedOnFirstLoad'])
                               localStorage.setItem(key + '_v1', key.endsWith('Open') ? 'false' : 'true'); }""")
    taken(page, "runs", runs_url('tags.stage = "finetune"'))
    taken(
        page,
        "variants",
        runs_url('tags.stage = "evaluate" and tags.benchmark = "instances"', compareRunsMode="CHART"),
    )
    five = ids('tags.stage = "finetune" and params.variant = "trohn_img"')
    asked = {
        "runs": five,
        "experiments": ["1"],
        "metric": "loss",
        "plot_metric_keys": ["loss"],
        "plot_layout": {},
    }
    query = "&".join(f"{name}={quote(json.dumps(value))}" for name, value in asked.items())
    taken(page, "curves", f"{UI}/#/metric?{query}&x_axis=step")
    taken(page, "run", f"{UI}/#/experiments/1/runs/{five[0]}")
    taken(page, "pin", runs_url(f'tags.`{tag}` != ""'))


def main() -> None:
    """Serve the pages for as long as the pictures are taken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", type=Path)
    parser.add_argument("--tag", default="pin.v1.0")
    asked = parser.parse_args()
    TO.mkdir(exist_ok=True)
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
        server.send_signal(signal.SIGINT)  # as Ctrl-C: it ends what it started
        server.wait()


if __name__ == "__main__":
    main()
