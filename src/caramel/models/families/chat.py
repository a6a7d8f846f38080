"""Chat endpoints of OpenAI's form: ``POST URL/chat/completions`` with an image and a prompt, words back.

Servers of this form are OpenAI's own, vLLM, llama.cpp, Ollama and many others. The key, where one is
needed, comes from the environment variable ``CARAMEL_CHAT_KEY``: it goes into the header of a request and
nowhere else. Models that think aloud before they answer do not fit into ``MAX_TOKENS``.

A server is not trusted either: of a response ``LARGEST`` bytes are read at most, uncompressed and within ``timeout``;
redirects are not followed; what is not JSON of this form is no reply.

The package ``openai`` is not used for it. Its pauses cannot be cut short, and what is no reply it does not ask again;
structured output would be another request, with other replies. Its bodies without bound, redirects and headers (of
the machine, and of ``OPENAI_…`` in the environment) would have to be taken back: more code than this.
"""

from __future__ import annotations

import base64
import io
import os
import re
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies, select_proxy
from urllib3.exceptions import HTTPError

from caramel.errors import BackendError, printable
from caramel.kinds.model import Family, Identity, Question, Reply
from caramel.models.families.chat_responses import Response, content, said, text_of
from caramel.storage.pictures import ORIENTATION, open_picture, opened

KEY = "CARAMEL_CHAT_KEY"
TEMPERATURE, SEED, MAX_TOKENS = 0, 0, 64  # an option and its caption fit
SHOWN = 500  # characters of a server's message
AGAIN = {408, 429}  # worth another attempt, as are 5xx; any other 3xx or 4xx is the caller's mistake
SENT = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}
_TARGET = re.compile(r"(?P<model>.+?)@(?P<url>https?://\S+)")


@dataclass(frozen=True)
class Chat:
    """A ``Chooser`` behind a chat endpoint.

    Attributes:
        name: what tables call the model.
        model: what the server calls it.
        url: base of the endpoint, such as ``http://127.0.0.1:8000/v1``.
        key: sent as a Bearer token; None: none is sent.
        timeout: seconds without a sign of the server, or for the body of a response, after which an attempt
            has failed.
        attempts: at one question.
        pause: seconds before the second attempt; they double with each further one.
        longest: seconds that are waited at most, whatever the server asks for with Retry-After.
        workers: requests at once.
    """

    name: str
    model: str
    url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 120.0
    attempts: int = 5
    pause: float = 1.0
    longest: float = 60.0
    workers: int = 8

    @property
    def identity(self) -> Identity:
        """What determines the replies, as far as the outside can tell.

        The URL is part of it: two servers may mean different weights by one name.
        """
        return {"family": "chat", "url": self.url, **self._parameters}

    @property
    def _parameters(self) -> dict[str, Any]:
        return {"model": self.model, "temperature": TEMPERATURE, "seed": SEED, "max_tokens": MAX_TOKENS}

    def ask(self, questions: Sequence[Question], heard: Callable[[int, Reply], None]) -> None:
        """Ask all questions, several at once; ``heard`` is called with place and reply as they come.

        An error ends it, but requests that are under way are still heard.

        Raises:
            BackendError: the server refuses a request as such (an unknown model, a wrong key …).
            DataError: an image cannot be read.
        """
        stop, lock = threading.Event(), threading.Lock()
        with requests.Session() as session:
            session.mount(self.url, HTTPAdapter(pool_maxsize=self.workers))

            def work(place: int) -> None:
                reply = self._reply(session, questions[place], stop)
                if reply is not None:
                    with lock:
                        heard(place, reply)

            pool = ThreadPoolExecutor(self.workers)
            try:
                for done in as_completed([pool.submit(work, i) for i in range(len(questions))]):
                    done.result()
            finally:
                stop.set()
                pool.shutdown(cancel_futures=True)

    def _reply(self, session: requests.Session, question: Question, stop: threading.Event) -> Reply | None:
        """Return the reply after ``attempts`` attempts at most; None if it was stopped before."""
        problem, asked, body = "", 0.0, None
        for attempt in range(self.attempts):
            delay = max(self.pause * 2 ** (attempt - 1), asked) if attempt else 0.0
            if stop.wait(min(delay, self.longest)):
                return None
            body = body or {**self._parameters, "messages": [_message(question)]}
            try:
                response = self._response(session, body)
            except (requests.RequestException, HTTPError) as error:
                problem, asked = self._told(f"{type(error).__name__}: {error}"), 0.0
                continue
            text = text_of(response)
            if text is not None:
                return Reply(text)
            problem = self._told(f"status {response.status}: {said(response)}")
            if 300 <= response.status < 500 and response.status not in AGAIN:
                raise BackendError(
                    f"The chat endpoint {self.url!r} refused a request for model {self.model!r} with {problem}\n"
                    f"Correct the URL or the model's name, or set {KEY}."
                )
            asked = _retry_after(response.headers.get("Retry-After", ""))
        return Reply(None, problem)

    def _response(self, session: requests.Session, body: Mapping[str, Any]) -> Response:
        """Return what the server says to a request; raises what requests and urllib3 raise."""
        with session.post(
            f"{self.url}/chat/completions",
            json=body,
            auth=self._signed,
            headers={"Accept-Encoding": "identity"},
            timeout=self.timeout,
            allow_redirects=False,  # a redirected POST would become a GET
            stream=True,
        ) as response:
            return Response(response.status_code, response.headers, content(response, self.timeout))

    def _signed(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request with the key; as an ``auth``, it keeps entries of .netrc out."""
        if self.key:
            request.headers["Authorization"] = f"Bearer {self.key}"
        return request

    def _told(self, text: str) -> str:
        """Return a message in one line and cut, without the key, which some servers repeat in theirs."""
        hidden = text.replace(self.key, f"${KEY}") if self.key else text
        return printable(" ".join(hidden.split()))[:SHOWN]


def load_chat(target: str, *, device: str, precision: str, name: str) -> Chat:
    """Return the model of a target ``MODEL@URL``; device and precision are the server's own.

    Raises:
        BackendError: it is not of that form, or the key cannot stand in a header.
    """
    model, url = _parsed(target)
    key = os.environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise BackendError(f"{KEY} holds characters that cannot stand in a header of HTTP. Set it again.")
    return Chat(name, model, url.geturl(), key or None)


def missing_chat(target: str) -> list[str]:
    """Return what keeps the model from being asked: a target of the wrong form, or nothing that listens."""
    try:
        url = _parsed(target)[1]
    except BackendError as error:
        return [str(error)]
    host, port = str(url.hostname), url.port or (443 if url.scheme == "https" else 80)
    if select_proxy(url.geturl(), get_environ_proxies(url.geturl())):
        return []  # the proxy reaches it, this machine perhaps not
    try:
        socket.create_connection((host, port), timeout=3).close()
    except (OSError, UnicodeError) as error:
        return [f"nothing listens at {host}:{port} ({error}). Start the server, or correct the URL."]
    return []


def _parsed(target: str) -> tuple[str, SplitResult]:
    """Return model and URL, without a slash at its end."""
    found = _TARGET.fullmatch(target)
    try:
        url = urlsplit(found["url"].rstrip("/") if found else "")
        valid = bool(url.hostname) and url.port != 0
    except ValueError:  # of a port, or of brackets
        valid = False
    if found is None or not valid:
        raise BackendError(
            f"Chat model {target!r} must be MODEL@URL, such as gpt-4o@http://127.0.0.1:8000/v1."
        )
    if url.username is not None or url.query or url.fragment:
        raise BackendError(
            f"The URL of chat model {found['model']!r} must end with its path, and hold neither user nor "
            f"password: give the key in {KEY}."
        )
    return found["model"], url


def _message(question: Question) -> dict[str, Any]:
    image = {"type": "image_url", "image_url": {"url": data_url(question.image())}}
    return {"role": "user", "content": [image, {"type": "text", "text": question.prompt}]}


def data_url(image: bytes) -> str:
    """Return an encoded image as a data URL; as PNG, upright, where servers would not read it as we do.

    Raises:
        DataError: it does not decode.
    """
    upright = open_picture(image, "of a question")
    with opened(image, "of a question") as picture:
        kind = SENT.get(picture.format or "")
        turned = picture.getexif().get(ORIENTATION, 1) != 1
    if kind is None or turned:
        buffer = io.BytesIO()
        upright.save(buffer, "PNG")
        kind, image = "image/png", buffer.getvalue()
    return f"data:{kind};base64,{base64.b64encode(image).decode()}"


def _retry_after(value: str) -> float:
    """Return the seconds that a header Retry-After asks for: a number or a date; 0 for anything else."""
    try:
        return float(value)
    except ValueError:
        pass
    try:
        return (parsedate_to_datetime(value).astimezone(UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return 0.0


CHAT = Family(
    "chat",
    "chooser",
    "MODEL@URL",
    "a chat endpoint of OpenAI's form, asked to choose",
    load=load_chat,
    missing=missing_chat,
)
