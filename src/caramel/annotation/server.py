"""The annotation server: a Starlette application over one task file.

Handlers are plain functions, which Starlette runs in threads: they wait for the disk.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from caramel.annotation.access import UNKNOWN, GuardedAccess, get_annotator, name_cookie
from caramel.annotation.accounts import find_annotator
from caramel.annotation.items import MAX_TEXT
from caramel.annotation.page_images import TaskImages, detect_media_type
from caramel.annotation.store import Answer, AnswerStore
from caramel.errors import DataError, ResourceError
from caramel.io.validators import validate_text

PAGE = Path(__file__).parent / "page"
MAX_BODY = 64 * 1024  # bytes of a request
PREFETCH = 2  # items that a page holds: the current one and the next
# The cookie is sent only from a page of this server, so that the start page opens itself once more.
ENTER = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><title>Opening</title>'
)
OTHER_TASK = "Another task is served here now. Reload this page to go on with that one."
NOT_STORED = (
    "The server could not store it: its disk is full, or the task file is in use. Tell whoever runs the task."
)
LOGGER = logging.getLogger(__name__)  # warnings go to the terminal of the server
GetAccounts = Callable[[], Mapping[str, str]]  # hash of the secret by annotator, at each request
Handler = Callable[[Request, str, Mapping[str, Any]], Response]


class AnnotationApp:
    """The handlers of one task, with the page that each annotator has open."""

    def __init__(self, store: AnswerStore, get_accounts: GetAccounts) -> None:
        """Store what the handlers use.

        Args:
            get_accounts: returns the hash of the secret by annotator. They may change while the task is served.
        """
        self.store, self._get_accounts = store, get_accounts
        self._images = TaskImages(store.locate_image)
        self._pages: dict[str, str] = {}  # annotator -> page that was opened last
        self._lock = threading.Lock()

    def build(self, origins: Sequence[str]) -> Starlette:
        """Return the application, which browsers reach under these origins."""
        routes = [
            Route("/", self.show_page),
            Route("/page.css", lambda _: FileResponse(PAGE / "page.css")),
            Route("/page.js", lambda _: FileResponse(PAGE / "page.js", media_type="text/javascript")),
            Route("/image/{key}", self.show_image),
            Route("/api/start", self._accept(self.start), methods=["POST"]),
            Route("/api/next", self._accept(self.give_next), methods=["POST"]),
            Route("/api/answer", self._accept(self.take_answer), methods=["POST"]),
            Route("/api/undo", self._accept(self.undo), methods=["POST"]),
        ]
        guard = Middleware(GuardedAccess, origins=origins)
        # Handlers turn their own errors into replies, so that this one is of the accounts: pages try again after a 503.
        handlers: Any = {DataError: lambda _, error: JSONResponse({"error": str(error)}, 503)}
        return Starlette(
            routes=routes, middleware=[guard], exception_handlers=handlers, max_body_size=MAX_BODY
        )

    def show_page(self, request: Request) -> Response:
        """Return the page. A link's secret is exchanged for a cookie, so that it leaves the address bar."""
        secret = request.query_params.get("token")
        if secret is not None and find_annotator(self._get_accounts(), secret):
            response = HTMLResponse(ENTER)
            response.set_cookie(
                name_cookie(request),
                secret,
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
            )
            return response
        if secret is not None or get_annotator(request, self._get_accounts()) is None:
            return PlainTextResponse(UNKNOWN, 403)
        return FileResponse(PAGE / "index.html")

    def show_image(self, request: Request) -> Response:
        """Return an image of the task, or 404 if it is unknown or cannot be read."""
        if get_annotator(request, self._get_accounts()) is None:
            return PlainTextResponse(UNKNOWN, 403)
        try:
            data = self._images.read(request.path_params["key"])
        except DataError as error:
            LOGGER.warning("%s", error)  # names folders of this machine
            return PlainTextResponse("This image cannot be read.", 404)
        headers = {"Cache-Control": "private, max-age=86400"}
        return Response(data, media_type=detect_media_type(data), headers=headers)

    def start(self, request: Request, annotator: str, body: Mapping[str, Any]) -> Response:
        """Make the page the annotator's current one, and return what the task is."""
        with self._lock:
            self._pages[annotator] = _read_text(body, "page", 100)
        settings = self.store.settings
        return JSONResponse(
            {
                "task": settings.task,
                "task_id": settings.task_id,
                "guideline": settings.guideline,
                "version": settings.guideline_hash,
                "annotator": annotator,
                "max_text": MAX_TEXT,
                **self._describe_progress(annotator),
            }
        )

    def give_next(self, request: Request, annotator: str, body: Mapping[str, Any]) -> Response:
        """Return further items for the page."""
        return self._give(annotator, body)

    def take_answer(self, request: Request, annotator: str, body: Mapping[str, Any]) -> Response:
        """Store an answer, and then return further items. A page that was replaced still gets its answer stored."""
        item = self.store.get_item(_read_text(body, "item_key", 100), annotator)
        skipped = body.get("skipped")
        answer = Answer(
            answer_id=_read_text(body, "answer_id", 100),
            item_id=item.item.item_id,
            annotator=annotator,
            answer=item.decode_answer(_read_responses(body), "answer") if skipped is None else None,
            skipped=None if skipped is None else _read_text(body, "skipped", MAX_TEXT),
            seconds=read_seconds(body.get("seconds"), "answer"),
            order=item.format_order(),
        )
        return self._give(annotator, body, new=self.store.add_answer(answer))

    def undo(self, request: Request, annotator: str, body: Mapping[str, Any]) -> Response:
        """Withdraw an answer, and return its item."""
        if self._is_replaced(annotator, body):
            return JSONResponse({"replaced": True}, 409)
        item = self.store.undo_answer(annotator, _read_text(body, "answer_id", 100))
        return JSONResponse(
            {"item": item and item.describe(), **self._describe_progress(annotator)},
        )

    def _give(self, annotator: str, body: Mapping[str, Any], **more: object) -> Response:
        if self._is_replaced(annotator, body):
            return JSONResponse({"replaced": True, **more}, 409)
        holding = body.get("holding")
        if not isinstance(holding, list) or not all(isinstance(name, str) for name in holding[:10]):
            raise DataError("`holding` must be a list of keys of items.")
        items = self.store.give_items(annotator, self.store.find_item_ids(holding[:10]), PREFETCH)
        return JSONResponse(
            {"items": [item.describe() for item in items], **more, **self._describe_progress(annotator)}
        )

    def _is_replaced(self, annotator: str, body: Mapping[str, Any]) -> bool:
        """Return whether the annotator has opened another page since. After a restart the first page to ask goes on."""
        page = _read_text(body, "page", 100)
        with self._lock:
            return self._pages.setdefault(annotator, page) != page

    def _describe_progress(self, annotator: str) -> dict[str, Any]:
        return {"progress": self.store.measure_progress(annotator).__dict__}

    def _accept(self, handle: Handler) -> Callable[[Request], Any]:
        """Return an endpoint that calls a handler with annotator and JSON body, and turns errors into replies."""

        async def answer_request(request: Request) -> Response:
            annotator = get_annotator(request, self._get_accounts())
            if annotator is None:
                return JSONResponse({"error": UNKNOWN}, 403)
            try:
                body = json.loads(await request.body())
                if not isinstance(body, dict):
                    raise DataError("The request must be a JSON object.")
                if handle != self.start and body.get("task_id") != self.store.settings.task_id:
                    return JSONResponse({"error": OTHER_TASK, "other_task": True}, 412)
                return await run_in_threadpool(handle, request, annotator, body)
            except ResourceError as error:
                LOGGER.warning("%s", error)
                return JSONResponse({"error": NOT_STORED}, 507)
            except (DataError, ValueError, RecursionError) as error:
                return JSONResponse({"error": str(error)}, 422)

        return answer_request


def read_seconds(value: object, where: str) -> float | None:
    """Return the time that an annotator took, in seconds, or None.

    Raises:
        DataError: it is not a number of at least 0 and at most a year.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{where}: `seconds` must be a number, not {value!r}.")
    if not 0 <= value <= 366 * 86400:  # also true of NaN
        raise DataError(f"{where}: `seconds` must be between 0 and a year, not {value!r}.")
    return float(value)


def _read_responses(body: Mapping[str, Any]) -> Sequence[object]:
    responses = body.get("responses")
    if not isinstance(responses, list):
        raise DataError("`responses` must be a list.")
    return responses


def _read_text(body: Mapping[str, Any], name: str, longest: int) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not 0 < len(value.strip()) <= longest:
        raise DataError(f"`{name}` must be a text of 1 to {longest} characters.")
    return validate_text(value, name, "request")
