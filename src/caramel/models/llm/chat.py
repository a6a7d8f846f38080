"""Chat endpoints of OpenAI's form (``chat_endpoint``) as language models that write."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import requests

from caramel.errors import BackendError
from caramel.interfaces.language_model import FAILED, Heard, LanguageModelKind, Request, Said, Waiting
from caramel.interfaces.model import Identity
from caramel.io.readers import json_or_none
from caramel.models.chat.endpoint import Endpoint, endpoint_of
from caramel.models.chat.responses import Response, read_finish, text_of
from caramel.models.chat.settings import adapt_body, format_settings, parsed

ALONE = frozenset((400, 413, 422))  # of what is too long for the model, or not to the server's taste


@dataclass(frozen=True)
class ChatWriter:
    """A ``LanguageModel`` behind a chat endpoint."""

    endpoint: Endpoint

    @property
    def identity(self) -> Identity:
        """What determines the replies, as far as the outside can tell: two servers may mean different weights by one name."""
        identity = {"family": "chat", "url": self.endpoint.url, "model": self.endpoint.model}
        settings = format_settings(self.endpoint.settings)
        return {**identity, "settings": settings} if settings else identity

    def answer(self, waiting: Waiting, heard: Heard) -> None:
        """Answer requests, several at once; see ``interfaces.language_model``. An error ends it, but what is under way is heard."""
        stop, done = threading.Event(), queue.SimpleQueue[Future[tuple[str, Said] | None]]()
        under_way, error = 0, None
        with self.endpoint.session() as session, ThreadPoolExecutor(self.endpoint.workers) as pool:
            try:
                while True:
                    free = 0 if error else self.endpoint.workers - under_way
                    for name, request in waiting(free) if free else ():
                        pool.submit(self._said, session, name, request, stop).add_done_callback(done.put)
                        under_way += 1
                    if not under_way:
                        break
                    finished = done.get()
                    under_way -= 1
                    if problem := finished.exception():
                        error = error or problem
                        stop.set()
                    elif found := finished.result():
                        heard(*found)
            finally:
                stop.set()
        if error:
            raise error

    def _said(
        self, session: requests.Session, name: str, request: Request, stop: threading.Event
    ) -> tuple[str, Said] | None:
        """Return the name of a request with its reply; None if it was stopped before."""
        begun = time.monotonic()
        endpoint = self.endpoint.allow_tokens(request.max_tokens)
        found = endpoint.reply(session, lambda: self._body(request), completion_of, stop)
        if found is None:
            return None
        said, problem = found
        seconds = round(time.monotonic() - begun, 3)
        return name, (said or Said(None, FAILED, problem=problem))._replace(seconds=seconds)

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": [{"role": role, "content": words} for role, words in request.messages],
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
        }
        if request.schema is not None:
            schema = {"name": "answer", "strict": True, "schema": json.loads(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return adapt_body(body, self.endpoint.settings)


def completion_of(response: Response) -> Said | None:
    """Return what a response says, with what its server counted; None if it is no reply."""
    text = text_of(response)
    if text is None:
        return None
    match json_or_none(response.content):
        case {"usage": Mapping() as usage}:
            counted = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        case _:
            counted = None, None
    return Said(text, read_finish(response), *counted)


def _count(value: object) -> int | None:
    """Return a number of tokens; None of what is none."""
    return value if type(value) is int and 0 <= value < 2**31 else None


def load_chat_writer(target: str, *, at_once: int, workers: int) -> ChatWriter:
    """Return the model of a target ``MODEL@URL``, which needs no workers; errors as in ``endpoint_of``."""
    return ChatWriter(replace(endpoint_of(target, workers=at_once), alone=ALONE))


def _wrong(target: str) -> list[str]:
    """Return what is wrong with a target; its server need not listen yet."""
    try:
        parsed(target)
    except BackendError as error:
        return [str(error)]
    return []


CHAT_WRITER = LanguageModelKind("chat", "MODEL@URL", load_chat_writer, _wrong)
