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
from caramel.interfaces.language_model import (
    FAILED,
    LanguageModelSpec,
    ModelOutput,
    NextRequests,
    OnResponse,
    Request,
)
from caramel.interfaces.model import Identity
from caramel.io.readers import try_parse_json
from caramel.models.chat.endpoint import Endpoint, create_endpoint
from caramel.models.chat.responses import Response, parse_text, read_finish
from caramel.models.chat.settings import apply_settings, format_settings, parse_target

ALONE = frozenset((400, 413, 422))  # of what is too long for the model, or not to the server's taste


@dataclass(frozen=True)
class ChatLanguageModel:
    """A ``LanguageModel`` behind a chat endpoint."""

    endpoint: Endpoint

    @property
    def identity(self) -> Identity:
        """What determines the replies, as far as the outside can tell: two servers may mean different weights by one name."""
        identity = {"family": "chat", "url": self.endpoint.url, "model": self.endpoint.model}
        settings = format_settings(self.endpoint.settings)
        return {**identity, "settings": settings} if settings else identity

    def answer_requests(self, next_requests: NextRequests, on_response: OnResponse) -> None:
        """Answer requests, several at once; see ``interfaces.language_model``. An error ends it, but what is under way is heard."""
        stop, done = threading.Event(), queue.SimpleQueue[Future[tuple[str, ModelOutput] | None]]()
        under_way, error = 0, None
        with self.endpoint.open_session() as session, ThreadPoolExecutor(self.endpoint.workers) as pool:
            try:
                while True:
                    free = 0 if error else self.endpoint.workers - under_way
                    for name, request in next_requests(free) if free else ():
                        pool.submit(self._fetch_output, session, name, request, stop).add_done_callback(
                            done.put
                        )
                        under_way += 1
                    if not under_way:
                        break
                    finished = done.get()
                    under_way -= 1
                    if problem := finished.exception():
                        error = error or problem
                        stop.set()
                    elif result := finished.result():
                        on_response(*result)
            finally:
                stop.set()
        if error:
            raise error

    def _fetch_output(
        self, session: requests.Session, name: str, request: Request, stop: threading.Event
    ) -> tuple[str, ModelOutput] | None:
        """Return the name of a request with its reply; None if it was stopped before."""
        begun = time.monotonic()
        endpoint = self.endpoint.allow_tokens(request.max_tokens)
        result = endpoint.fetch_reply(session, lambda: self._build_body(request), parse_completion, stop)
        if result is None:
            return None
        output, problem = result
        seconds = round(time.monotonic() - begun, 3)
        return name, (output or ModelOutput(None, FAILED, problem=problem))._replace(seconds=seconds)

    def _build_body(self, request: Request) -> dict[str, Any]:
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
        return apply_settings(body, self.endpoint.settings)


def parse_completion(response: Response) -> ModelOutput | None:
    """Return what a response says, with what its server counted; None if it is no reply."""
    text = parse_text(response)
    if text is None:
        return None
    match try_parse_json(response.content):
        case {"usage": Mapping() as usage}:
            counted = _parse_count(usage.get("prompt_tokens")), _parse_count(usage.get("completion_tokens"))
        case _:
            counted = None, None
    return ModelOutput(text, read_finish(response), *counted)


def _parse_count(value: object) -> int | None:
    """Return a number of tokens; None of what is none."""
    return value if type(value) is int and 0 <= value < 2**31 else None


def load_chat_model(target: str, *, max_connections: int, workers: int) -> ChatLanguageModel:
    """Return the model of a target ``MODEL@URL``, which needs no workers; errors as in ``endpoint_of``."""
    return ChatLanguageModel(replace(create_endpoint(target, workers=max_connections), alone=ALONE))


def _list_target_problems(target: str) -> list[str]:
    """Return what is wrong with a target; its server need not listen yet."""
    try:
        parse_target(target)
    except BackendError as error:
        return [str(error)]
    return []


CHAT_WRITER = LanguageModelSpec("chat", "MODEL@URL", load_chat_model, _list_target_problems)
