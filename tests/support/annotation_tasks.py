"""Small annotation tasks, and servers of them in this process."""

from __future__ import annotations

import io
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import requests
import uvicorn
from PIL import Image
from stored_images import stored

from caramel.annotation.accounts import hash_secret
from caramel.annotation.items import Item, Option, Question
from caramel.annotation.making.image_keys import ImageKeys
from caramel.annotation.making.image_tasks import BOTH, NEITHER, NONE
from caramel.annotation.server import AnnotationApp, GetAccounts
from caramel.annotation.serving import list_origins, open_socket
from caramel.annotation.store import Answer, AnswerStore
from caramel.annotation.task_file import TaskSettings, create_task_file

SECRET = "a-secret-of-the-tests"


def encoded(number: int) -> bytes:
    """Return a PNG of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", (48, 48), (number * 37 % 256, number * 91 % 256, 128)).save(buffer, "PNG")
    return buffer.getvalue()


def write_images(folder: Path, count: int) -> Path:
    """Write images i0, i1 … and return their index."""
    known = {"width": 48, "height": 48, "source": "test", "split": "test"}
    stored(
        folder / "images.parquet",
        [{"image_id": f"i{n}", "data": encoded(n), **known} for n in range(count)],
    )
    return folder / "images.parquet"


def choose_item(number: int, images: Sequence[str], caption: str = "A red ball.", **more: Any) -> Item:
    """Return an item of task ``choose``."""
    options = (*(Option(str(n), image=key) for n, key in enumerate(images)), NONE)
    return Item(
        f"n{number:03}",
        (Question("image", "Which image fits the caption best?", options, caption=caption),),
        **more,
    )


def text_item(number: int, caption: str = "A red ball.", **more: Any) -> Item:
    """Return an item without images, of task ``fits``."""
    options = (Option("positive", caption="first"), Option("negative", caption="second"), BOTH, NEITHER)
    return Item(f"n{number:03}", (Question("image", "Which fits?", options, caption=caption),), **more)


def compare_item(number: int) -> Item:
    """Return an item with two questions."""
    options = (Option("first", "a red ball"), Option("second", "a ball red"))
    questions = (
        Question("plausible", "More plausible?", options),
        Question("grammatical", "More grammatical?", options),
    )
    return Item(f"a{number}|b{number}", questions)


def write_task(
    path: Path,
    items: Sequence[Item],
    keys: ImageKeys | None = None,
    roles: Mapping[str, str] | None = None,
    **more: Any,
) -> Path:
    """Write a task file and return its path."""
    settings = {"task": "fits", "guideline": "Title\n\nWhat to do.", "seed": 3, **more}
    create_task_file(path, TaskSettings(**settings), items, keys.images if keys else {}, roles or {})
    return path


def image_task(folder: Path, count: int, **more: Any) -> Path:
    """Write a task ``choose`` with two images per item, and return its path."""
    keys, index = ImageKeys(), write_images(folder, 2 * count)
    items = [
        choose_item(n, [keys.add(index, f"i{2 * n}"), keys.add(index, f"i{2 * n + 1}")]) for n in range(count)
    ]
    return write_task(folder / "task.db", items, keys, **{"task": "choose", **more})


def answer_of(item_id: str, annotator: str, **more: Any) -> Answer:
    """Return an answer."""
    values = {
        "answer_id": f"{annotator}-{item_id}",
        "answer": "positive",
        "skipped": None,
        "seconds": 1.5,
        "order": "[]",
    }
    return Answer(item_id=item_id, annotator=annotator, **{**values, **more})


def list_keys(path: Path) -> dict[str, str]:
    """Return the key of each item of a task file, by which pages and exported files name it."""
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT item_id, key FROM items").fetchall())


@contextmanager
def serving(
    path: Path,
    accounts: Mapping[str, str] | None = None,
    port: int = 0,
    *,
    get_accounts: GetAccounts | None = None,
    public_url: str | None = None,
) -> Iterator[str]:
    """Serve a task in a thread; yield the origin, such as http://127.0.0.1:4321.

    Args:
        accounts: secret by annotator; by default ``me`` with ``SECRET``.
        get_accounts: in place of ``accounts``.
    """
    store, listener = AnswerStore(path), open_socket("127.0.0.1", port)
    hashes = {name: hash_secret(secret) for name, secret in (accounts or {"me": SECRET}).items()}
    port = listener.getsockname()[1]
    store.extend_assignments()
    app = AnnotationApp(store, get_accounts or (lambda: hashes)).build(
        list_origins("127.0.0.1", port, public_url)
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
        listener.close()
        store.close()


class Client:
    """An annotator's browser without a page: it sends what the page sends."""

    def __init__(self, origin: str, secret: str = SECRET, page: str = "page-1") -> None:
        self.origin, self.page, self.session = origin, page, requests.Session()
        self.task_id = ""  # once the page is opened
        self.session.headers["Origin"] = origin
        self.session.get(f"{origin}/", params={"token": secret}, timeout=30)

    def send(self, path: str, **body: Any) -> requests.Response:
        """Send a request to the API."""
        return self.session.post(
            f"{self.origin}/api/{path}", json={"page": self.page, "task_id": self.task_id, **body}, timeout=30
        )

    def start(self) -> list[dict[str, Any]]:
        """Open the page, and return the first items."""
        self.task_id = self.send("start").json().get("task_id", "")
        items: list[dict[str, Any]] = self.send("next", holding=[]).json()["items"]
        return items

    def answer(
        self, item_key: str, *responses: Any, holding: Sequence[str] = (), **more: Any
    ) -> requests.Response:
        """Answer an item."""
        body = {"answer_id": f"{self.page}-{item_key}", "seconds": 2.5, "responses": responses, **more}
        return self.send("answer", **{"item_key": item_key, "holding": list(holding), **body})
