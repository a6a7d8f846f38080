"""Send requests to chat endpoints of OpenAI's form, ``POST URL/chat/completions``, and handle their errors.

Servers of this form are OpenAI's own, vLLM, llama.cpp, Ollama and many others. If a key is needed, it comes
from the environment variable ``CARAMEL_CHAT_KEY``. It is sent in the header of a request and used nowhere
else.

A server is not trusted. At most ``largest`` bytes of a response are read, uncompressed and within
``timeout``. Redirects are not followed. A body that is not JSON of this form does not count as a response.

The package ``openai`` is not used, for these reasons:

- Its pauses cannot be interrupted, and it does not repeat a request whose response is invalid.
- Structured output would be another request, with other responses.
- Its unlimited bodies, redirects and headers (of the machine, and of ``OPENAI_…`` in the environment) would
  have to be disabled, which takes more code than this module.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

from caramel.errors import BackendError, escape_unprintable
from caramel.interfaces.connections import AUTO, MaxConnections
from caramel.models.chat.concurrency import ConnectionSlots, Result, Slot
from caramel.models.chat.rate_limits import Pace, get_reset_seconds, parse_retry_after
from caramel.models.chat.responses import LARGEST, Response, parse_error_message
from caramel.models.chat.settings import KEY, Settings, find_setting, format_settings, parse_target
from caramel.runtime.http import read_body

Read = TypeVar("Read")
SHOWN = 500  # characters of a server's message
SECRET = 8  # least length of a key that is hidden in responses; a shorter one is a word, such as EMPTY
AGAIN = {408, 429}  # worth another attempt, as are 5xx; any other 3xx or 4xx is an error of the caller
BUSY = {429, 503}  # all requests wait after it, not only the one that received it
# statuses of requests that a server does not accept, for example because of an unknown parameter
REFUSING = {400, 422}
BYTES_PER_TOKEN = 64  # largest response
SLOWEST = 4  # tokens per second
# largest number of backslashes before an escaped character: a quote in a quote in a quote has seven
_QUOTED = 8


@dataclass(frozen=True)
class Endpoint:
    """A model behind a chat endpoint.

    Attributes:
        model: the server's name of the model.
        url: base of the endpoint, such as ``http://127.0.0.1:8000/v1``.
        key: sent as a Bearer token; None: none is sent.
        timeout: seconds without data from the server, or for the body of a response, after which an attempt
            has failed.
        largest: largest size of a response in bytes.
        alone: statuses that concern one request, which then has no response; other 3xx and 4xx end all
            requests.
        max_attempts: largest number of attempts at one request.
        pause: seconds before the second attempt; doubled with each further one.
        longest: largest pause in seconds, whatever the server requests with Retry-After.
        settings: deviations of this server from the usual form.
        slots: the requests in flight; shared by all requests, as ``pace`` is.
        pace: the server's requests to wait.
    """

    model: str
    url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 120.0
    largest: int = LARGEST
    alone: frozenset[int] = frozenset()
    max_attempts: int = 5
    pause: float = 1.0
    longest: float = 60.0
    settings: Settings = frozenset()
    slots: ConnectionSlots = field(default_factory=ConnectionSlots, repr=False, compare=False)
    pace: Pace = field(default_factory=Pace, repr=False, compare=False)

    def allow_tokens(self, number: int) -> Endpoint:
        """Return the endpoint with time and bytes for responses of this many tokens."""
        return replace(
            self,
            largest=max(self.largest, BYTES_PER_TOKEN * number),
            timeout=max(self.timeout, number / SLOWEST),
        )

    @contextmanager
    def open_session(self) -> Iterator[requests.Session]:
        """Yield a session that keeps a connection for each slot."""
        with requests.Session() as session:
            session.mount(self.url, HTTPAdapter(pool_maxsize=self.slots.highest))
            yield session

    def fetch_reply(
        self,
        session: requests.Session,
        body: Callable[[], Mapping[str, Any]],
        read: Callable[[Response], Read | None],
        stop: threading.Event,
    ) -> tuple[Read | None, str] | None:
        """Return (response, "") or, after ``max_attempts`` attempts, (None, last problem); None if stopped before.

        Args:
            session: from ``open_session``.
            body: returns the body of the request; called shortly before it is sent.
            read: parses a response; returns None if it is invalid.
            stop: interrupts pauses, and prevents new attempts.

        Raises:
            BackendError: the server refuses the request as such (an unknown model, a wrong key …).
        """
        problem, retry_after, request_body = "", 0.0, None
        for attempt in range(self.max_attempts):
            if stop.is_set():
                return None
            request_body = request_body or body()
            delay = max(self.pause * 2 ** (attempt - 1), retry_after) if attempt else 0.0
            slot = self._wait_for_slot(delay, stop)
            if slot is None:
                return None
            try:
                response = self._send_in_slot(session, request_body, slot)
            except (requests.RequestException, HTTPError) as error:
                problem, retry_after = self._format_message(f"{type(error).__name__}: {error}"), 0.0
                continue
            reply = read(response)
            if reply is not None:
                return reply, ""
            problem = self._format_message(f"status {response.status}: {parse_error_message(response)}")
            if response.status in REFUSING and (
                setting := find_setting(parse_error_message(response), self.settings)
            ):
                target = f"{self.model}@{self.url}#{format_settings(self.settings | {setting})}"
                raise BackendError(
                    f"The chat endpoint {self.url!r} refused a request for model {self.model!r} with "
                    f"{problem}\nGive the model as {target!r}. The request's parameters determine the "
                    f"responses and are part of the model's identity."
                )
            if response.status in self.alone:
                return None, problem
            if 300 <= response.status < 500 and response.status not in AGAIN:
                raise BackendError(
                    f"The chat endpoint {self.url!r} refused a request for model {self.model!r} with {problem}\n"
                    f"Correct the URL or the model's name, or set {KEY}."
                )
            retry_after = parse_retry_after(response.headers.get("Retry-After", ""))
        return None, problem

    def _wait_for_slot(self, delay: float, stop: threading.Event) -> Slot | None:
        """Wait for a delay, the server's pace and a slot; return None if stopped before."""
        while True:
            until = self.pace.until
            if stop.wait(min(max(delay, self.pace.get_remaining_seconds()), self.longest)):
                return None
            slot = self.slots.take_slot()
            if self.pace.until == until and not stop.is_set():
                return slot
            self.slots.release_slot(slot, "failed")  # stopped or told to wait while it waited for the slot
            delay = 0.0

    def _send_in_slot(self, session: requests.Session, body: Mapping[str, Any], slot: Slot) -> Response:
        """Return the server's response, and free the slot; errors are those of ``_send_request``.

        A pause that the server asks for holds before another request can take the slot.
        """
        result: Result = "failed"
        try:
            response = self._send_request(session, body)
            wait = get_reset_seconds(response.headers)
            if response.status in BUSY:
                result = "refused"
                wait = max(wait, parse_retry_after(response.headers.get("Retry-After", "")))
            elif response.status == 200:
                result = "answered"
            self.pace.hold_requests(min(wait, self.longest))
            return response
        finally:
            self.slots.release_slot(slot, result)

    def _send_request(self, session: requests.Session, body: Mapping[str, Any]) -> Response:
        """Return the server's response to a request; raises what requests and urllib3 raise."""
        begun = time.monotonic()
        with session.post(
            f"{self.url}/chat/completions",
            json=body,
            auth=self._sign_request,
            headers={"Accept-Encoding": "identity"},
            timeout=self.timeout,
            allow_redirects=False,  # a redirected POST would become a GET
            stream=True,
        ) as response:
            content = read_body(response, self.timeout, self.largest)
            if self.key and len(self.key) >= SECRET:  # responses are stored and published
                content = re.sub(_build_key_pattern(self.key).encode(), f"${KEY}".encode(), content)
            return Response(response.status_code, response.headers, content, time.monotonic() - begun)

    def _sign_request(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request with the key; as an ``auth``, it prevents the use of entries of .netrc."""
        if self.key:
            request.headers["Authorization"] = f"Bearer {self.key}"
        return request

    def _format_message(self, text: str) -> str:
        """Return a message in one line and cut, without the key, which some servers repeat in their messages."""
        hidden = re.sub(_build_key_pattern(self.key), f"${KEY}", text) if self.key else text
        return escape_unprintable(" ".join(hidden.split()))[:SHOWN]


def create_endpoint(target: str, *, max_connections: MaxConnections = AUTO) -> Endpoint:
    """Return the endpoint of a target ``MODEL@URL`` or ``MODEL@URL#SETTINGS``, with the key from the environment.

    Raises:
        BackendError: the target has another form, or the key cannot be sent in a header.
    """
    model, url, settings = parse_target(target)
    key = os.environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise BackendError(f"{KEY} contains characters that are not allowed in an HTTP header. Set it again.")
    return Endpoint(
        model, url.geturl(), key or None, settings=settings, slots=ConnectionSlots(max_connections)
    )


def _build_key_pattern(key: str) -> str:
    """Return the pattern of a key in JSON, and in JSON that is quoted in JSON: its characters, escaped or not."""
    return "".join(rf"\\{{0,{_QUOTED}}}(?:{re.escape(sign)}|(?i:u{ord(sign):04x}))" for sign in key)
