"""Use chat endpoints of OpenAI's form (``chat.endpoint``) as language models that write text."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import requests

from caramel.errors import BackendError
from caramel.interfaces.connections import MaxConnections
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
from caramel.models.chat.dispatch import Job, run_jobs
from caramel.models.chat.endpoint import Endpoint, create_endpoint
from caramel.models.chat.responses import Response, parse_text, read_finish
from caramel.models.chat.settings import apply_settings, format_settings, parse_target
from caramel.models.llm.server_checks import ServerChecks

# statuses of requests that are too long for the model, or that the server does not accept
ALONE = frozenset((400, 413, 422))


@dataclass(frozen=True)
class ChatLanguageModel:
    """A ``LanguageModel`` behind a chat endpoint."""

    endpoint: Endpoint

    @property
    def identity(self) -> Identity:
        """Return what determines the responses, as far as it is visible from outside.

        Two servers may use one name for different weights, so the URL is included.
        """
        identity = {"family": "chat", "url": self.endpoint.url, "model": self.endpoint.model}
        settings = format_settings(self.endpoint.settings)
        return {**identity, "settings": settings} if settings else identity

    @property
    def connections(self) -> int:
        """Return the number of requests that may be in flight now."""
        return self.endpoint.slots.level

    def answer_requests(self, next_requests: NextRequests, on_response: OnResponse) -> None:
        """Send requests concurrently; see ``interfaces.language_model``.

        An error ends the run, but responses to requests in progress are still passed on.
        """
        checks = ServerChecks(self.endpoint.url)

        def take_jobs(number: int) -> list[Job[tuple[str, ModelOutput] | None]]:
            return [
                partial(self._answer_request, name, request, checks)
                for name, request in next_requests(number)
            ]

        def pass_output(output: tuple[str, ModelOutput] | None) -> None:
            if output is not None:
                on_response(*output)

        run_jobs(self.endpoint, take_jobs, pass_output)

    def _answer_request(
        self,
        name: str,
        request: Request,
        checks: ServerChecks,
        session: requests.Session,
        stop: threading.Event,
    ) -> tuple[str, ModelOutput] | None:
        """Return the name of a request with its response; None if it was stopped before."""
        if request.temperature and request.min_p:
            checks.check_min_p(lambda probe: self._fetch_output(session, probe, stop))
        output = self._fetch_output(session, request, stop)
        if output is None:
            return None
        checks.check_refusal(output.problem)
        checks.warn_of_ignored_schema(request, output)
        return name, output

    def _fetch_output(
        self, session: requests.Session, request: Request, stop: threading.Event
    ) -> ModelOutput | None:
        """Return the response to a request; None if it was stopped before."""
        endpoint = self.endpoint.allow_tokens(request.max_tokens)
        result = endpoint.fetch_reply(session, lambda: self.build_body(request), parse_completion, stop)
        if result is None:
            return None
        output, problem = result
        return output or ModelOutput(None, FAILED, problem=problem)

    def build_body(self, request: Request) -> dict[str, Any]:
        """Return the body of a request, JSON-like."""
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": [{"role": role, "content": words} for role, words in request.messages],
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
        }
        if request.temperature:  # without truncation nothing is sent: many servers refuse min_p
            body |= {"top_p": request.top_p} if request.top_p < 1 else {}
            body |= {"min_p": request.min_p} if request.min_p > 0 else {}
        if request.schema is not None:
            schema = {"name": "answer", "strict": True, "schema": json.loads(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return apply_settings(body, self.endpoint.settings)


def parse_completion(response: Response) -> ModelOutput | None:
    """Return the text of a response with the server's token counts; None if the response is invalid."""
    text = parse_text(response)
    if text is None:
        return None
    match try_parse_json(response.content):
        case {"usage": Mapping() as usage}:
            counted = _parse_count(usage.get("prompt_tokens")), _parse_count(usage.get("completion_tokens"))
        case _:
            counted = None, None
    return ModelOutput(text, read_finish(response), *counted, seconds=round(response.seconds, 3))


def _parse_count(value: object) -> int | None:
    """Return a number of tokens; None if the value is not one."""
    return value if type(value) is int and 0 <= value < 2**31 else None


def load_chat_model(target: str, *, max_connections: MaxConnections, workers: int) -> ChatLanguageModel:
    """Return the model of a target ``MODEL@URL``, without workers; errors are those of ``create_endpoint``."""
    return ChatLanguageModel(replace(create_endpoint(target, max_connections=max_connections), alone=ALONE))


def _list_target_problems(target: str) -> list[str]:
    """Return what is wrong with a target; its server may still be down."""
    try:
        parse_target(target)
    except BackendError as error:
        return [str(error)]
    return []


CHAT_WRITER = LanguageModelSpec("chat", "MODEL@URL", load_chat_model, _list_target_problems)
