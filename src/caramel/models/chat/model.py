"""Multiple choice by chat endpoints of OpenAI's form (``chat_endpoint``): an image and a prompt, words back.

Models that think before they answer do not fit into ``MAX_TOKENS``. Where the bound is ``max_completion_tokens``
(``chat_settings``), which counts these thoughts, it is ``MAX_COMPLETION_TOKENS``.
"""

from __future__ import annotations

import base64
import io
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import requests
from requests.utils import get_environ_proxies, select_proxy

from caramel.errors import BackendError
from caramel.interfaces.model import Family, Identity, Question, Reply
from caramel.io.image_codec import ORIENTATION, open_picture, opened
from caramel.models.chat.endpoint import Endpoint, endpoint_of
from caramel.models.chat.responses import Response, read_finish, text_of
from caramel.models.chat.settings import COMPLETION_TOKENS, adapt_body, parsed

TEMPERATURE, SEED, MAX_TOKENS = 0, 0, 64  # an option and its caption fit
MAX_COMPLETION_TOKENS = 4096  # and what a model thinks before
SENT = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}


@dataclass(frozen=True)
class Chat:
    """A ``Chooser`` behind a chat endpoint.

    Attributes:
        name: what tables call the model.
        endpoint: where it is asked.
    """

    name: str
    endpoint: Endpoint

    @property
    def identity(self) -> Identity:
        """What determines the replies, as far as the outside can tell.

        The URL is part of it: two servers may mean different weights by one name.
        """
        return {"family": "chat", "url": self.endpoint.url, **self._parameters}

    @property
    def _max_tokens(self) -> int:
        return MAX_COMPLETION_TOKENS if COMPLETION_TOKENS in self.endpoint.settings else MAX_TOKENS

    @property
    def _parameters(self) -> dict[str, Any]:
        """What is sent with every question."""
        model, bound = self.endpoint.model, self._max_tokens
        sent = {"model": model, "temperature": TEMPERATURE, "seed": SEED, "max_tokens": bound}
        return adapt_body(sent, self.endpoint.settings)

    def ask(self, questions: Sequence[Question], heard: Callable[[int, Reply], None]) -> None:
        """Ask all questions, several at once; ``heard`` is called with place and reply as they come.

        An error ends it, but requests that are under way are still heard.

        Raises:
            BackendError: the server refuses a request as such (an unknown model, a wrong key …).
            DataError: an image cannot be read.
        """
        stop, lock = threading.Event(), threading.Lock()
        with self.endpoint.session() as session:

            def work(place: int) -> None:
                reply = self._reply(session, questions[place], stop)
                if reply is not None:
                    with lock:
                        heard(place, reply)

            pool = ThreadPoolExecutor(self.endpoint.workers)
            try:
                for done in as_completed([pool.submit(work, i) for i in range(len(questions))]):
                    done.result()
            finally:
                stop.set()
                pool.shutdown(cancel_futures=True)

    def _reply(self, session: requests.Session, question: Question, stop: threading.Event) -> Reply | None:
        """Return the reply, without words if none came; None if it was stopped before."""

        def body() -> dict[str, Any]:
            return {**self._parameters, "messages": [_message(question)]}

        found = self.endpoint.allow_tokens(self._max_tokens).reply(session, body, read_reply, stop)
        if found is None:
            return None
        reply, problem = found
        return reply or Reply(None, problem)


def read_reply(response: Response) -> Reply | None:
    """Return what a response says and why it ended; None if it is no reply."""
    text = text_of(response)
    return None if text is None else Reply(text, finish=read_finish(response))


def load_chat(target: str, *, device: str, precision: str, name: str) -> Chat:
    """Return the model of a target ``MODEL@URL``; device and precision are the server's own.

    Raises:
        BackendError: it is not of that form, or the key cannot stand in a header.
    """
    return Chat(name, endpoint_of(target))


def missing_chat(target: str) -> list[str]:
    """Return what keeps the model from being asked: a target of the wrong form, or nothing that listens."""
    try:
        url = parsed(target)[1]
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


CHAT = Family(
    "chat",
    "chooser",
    "MODEL@URL",
    "a chat endpoint of OpenAI's form, asked to choose",
    load=load_chat,
    missing=missing_chat,
)
