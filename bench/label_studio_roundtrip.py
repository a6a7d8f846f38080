"""Send tasks through a real Label Studio and back: export, import there, annotate by its API, export there, import here.

    python -m venv /tmp/ls && /tmp/ls/bin/pip install label-studio
    python bench/label_studio_roundtrip.py /tmp/ls/bin/label-studio

Needs Label Studio in an environment of its own, because its packages conflict with caramel's. Prints one line per kind of
task; the exit code is 1 if an answer is lost or changed.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import requests

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from annotation_tasks import compare_item, image_task, list_keys, write_task

from caramel.annotation.answers import read_answers
from caramel.annotation.exchange import label_studio
from caramel.annotation.exchange.importing import import_answers
from caramel.annotation.items import Item, Option, OrderedItem, Question, order_item
from caramel.annotation.page_images import TaskImages
from caramel.annotation.store import AnswerStore

START = 300  # seconds until the server is up: it creates its database first
ITEMS = 6


@contextmanager
def run_server(program: Path, port: int) -> Iterator[requests.Session]:
    """Start Label Studio with an empty database, and yield a session that is logged in to its API."""
    token = secrets.token_hex(20)
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log.txt").open("wb") as log:
        environment = {
            **os.environ,
            "LABEL_STUDIO_BASE_DATA_DIR": folder,
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
            "SENTRY_DSN": "",
            "FRONTEND_SENTRY_DSN": "",
            "COLLECT_ANALYTICS": "False",
        }
        user = ["--username", "bench@example.org", "--password", token, "--user-token", token]
        command = [str(program), "start", "--no-browser", "--port", str(port), *user]
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        session = requests.Session()
        session.headers["Authorization"] = f"Token {token}"
        try:
            wait_for_server(session, f"http://127.0.0.1:{port}", server)
            yield session
        finally:
            server.terminate()
            server.wait()


def wait_for_server(session: requests.Session, url: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the API replies."""
    for _ in range(START):
        try:
            if session.get(f"{url}/api/projects/", timeout=30).ok:
                return
        except requests.ConnectionError:
            pass
        if server.poll() is not None:
            raise SystemExit(f"Label Studio ended with {server.returncode}.")
        time.sleep(1)
    raise SystemExit(f"Label Studio did not start within {START} s.")


def make_tasks(folder: Path) -> dict[str, Path]:
    """Write one task of each form: images, two questions, an edited text."""
    draft = [
        Item(
            f"p{n}",
            (
                Question(
                    "text",
                    "Correct it.",
                    (Option("draft", f"A <b>ball</b> {n}."),),
                    caption="A & B",
                    editable=True,
                ),
            ),
        )
        for n in range(ITEMS)
    ]
    (folder / "images").mkdir()
    return {
        "choose": image_task(folder / "images", ITEMS),
        "compare": write_task(folder / "compare.db", [compare_item(n) for n in range(ITEMS)], task="compare"),
        "correct": write_task(folder / "correct.db", draft, task="correct"),
    }


def annotate(
    session: requests.Session, url: str, task: dict[str, Any], item: OrderedItem, number: int
) -> str:
    """Answer one task by the API, every third one in another way; return the answer that must come back."""
    results, responses = [], list[object]()
    for index, question in enumerate(item.questions, 1):
        position = number % len(question.options)
        text = f"Corrected <i>{number}</i>"
        value = {"text": [text]} if question.editable else {"choices": [str(position + 1)]}
        kind = "textarea" if question.editable else "choices"
        responses.append(text if question.editable else position)
        names = {"from_name": f"answer_{index}", "to_name": f"shown_{index}"}
        results.append({**names, "type": kind, "value": value, "origin": "manual"})
    body: Any = {"result": results, "lead_time": 1.5 + number}
    reply = session.post(f"{url}/api/tasks/{task['id']}/annotations/", json=body, timeout=60)
    reply.raise_for_status()
    return item.decode_answer(responses, "bench")


def send_through(session: requests.Session, url: str, name: str, path: Path, folder: Path) -> bool:
    """Send one task there and back; return whether each answer came back as it was given."""
    with closing(AnswerStore(path)) as store:
        items = store.list_exported_items()
        label_studio.write_label_studio(folder, store.settings, items, TaskImages(store.locate_image).read)
        config = (folder / label_studio.CONFIG).read_text(encoding="utf-8")
        tasks = json.loads((folder / label_studio.TASKS).read_text(encoding="utf-8"))
        project = session.post(
            f"{url}/api/projects/", json={"title": name, "label_config": config}, timeout=60
        )
        project.raise_for_status()
        number = project.json()["id"]
        reply = session.post(f"{url}/api/projects/{number}/import", json=tasks, timeout=120)
        reply.raise_for_status()
        stored = session.get(
            f"{url}/api/tasks", params={"project": number, "fields": "all"}, timeout=60
        ).json()
        by_key = {item.key: order_item(item, label_studio.READER, store.settings.seed) for item in items}
        wanted = {
            task["data"]["item_key"]: annotate(session, url, task, by_key[task["data"]["item_key"]], n)
            for n, task in enumerate(stored["tasks"])
        }
        export = session.get(
            f"{url}/api/projects/{number}/export", params={"exportType": "JSON"}, timeout=120
        )
        export.raise_for_status()
        (folder / "export.json").write_bytes(export.content)
        new, total = import_answers(store, folder / "export.json")
        again, _ = import_answers(store, folder / "export.json")
    rows = read_answers(path)
    same = dict(zip(rows["item_id"].map(list_keys(path)), rows["answer"], strict=True)) == wanted
    print(f"{name:8} {len(tasks)} sent, {total} back, {new} new, {again} at a second import, equal: {same}")
    return same and new == len(tasks) and again == 0


def main() -> None:
    """Run the round trips and print what came back."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", type=Path)
    parser.add_argument("--port", type=int, default=8089)
    options = parser.parse_args()
    url = f"http://127.0.0.1:{options.port}"
    with run_server(options.program, options.port) as session, tempfile.TemporaryDirectory() as scratch:
        version = session.get(f"{url}/api/version", timeout=60).json()["label-studio-os-package"]["version"]
        print(f"Label Studio {version}")
        results = []
        for name, path in make_tasks(Path(scratch)).items():
            folder = Path(scratch, f"{name}-exchange")
            folder.mkdir()
            results.append(send_through(session, url, name, path, folder))
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
