"""Answer multiple-choice questions about images by chat endpoints of OpenAI's form (``chat.endpoint``).

Models that reason before they answer do not fit into ``MAX_TOKENS``. If the limit is
``max_completion_tokens`` (``chat.settings``), which includes the reasoning, it is ``MAX_COMPLETION_TOKENS``.
"""

from __future__ import annotations

import base64
import io
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import requests
from requests.utils import get_environ_proxies, select_proxy

from caramel.errors import BackendError
from caramel.interfaces.model import Family, Identity, Question, Reply
from caramel.io.image_codec import ORIENTATION, decode_image, open_encoded_image
from caramel.models.chat.dispatch import run_jobs
from caramel.models.chat.endpoint import Endpoint, create_endpoint
from caramel.models.chat.responses import Response, parse_text, read_finish
from caramel.models.chat.settings import COMPLETION_TOKENS, apply_settings, parse_target, split_wording

TEMPERATURE, SEED, MAX_TOKENS = 0, 0, 64  # an option and its caption fit
MAX_COMPLETION_TOKENS = 4096  # plus a model's reasoning
SENT = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}


@dataclass(frozen=True)
class ChatModel:
    """A ``Chooser`` behind a chat endpoint.

    Attributes:
        name: name of the model in tables.
        endpoint: the endpoint that requests are sent to.
        wording: published wording in which it is asked; empty: the wordings of ``prompt_templates``.
    """

    name: str
    endpoint: Endpoint
    wording: str = ""

    @property
    def identity(self) -> Identity:
        """Return what determines the responses, as far as it is visible from outside.

        The server's URL is part of the identity: two servers may use one name for different weights.
        """
        return {"family": "chat", "url": self.endpoint.url, **self._parameters}

    @property
    def _max_tokens(self) -> int:
        return MAX_COMPLETION_TOKENS if COMPLETION_TOKENS in self.endpoint.settings else MAX_TOKENS

    @property
    def _parameters(self) -> dict[str, Any]:
        """Return the parameters that are sent with every question."""
        model, bound = self.endpoint.model, self._max_tokens
        sent = {"model": model, "temperature": TEMPERATURE, "seed": SEED, "max_tokens": bound}
        return apply_settings(sent, self.endpoint.settings)

    @property
    def connections(self) -> int:
        """Return the number of requests that may be in flight now."""
        return self.endpoint.slots.level

    def answer_questions(self, questions: Sequence[Question], on_reply: Callable[[int, Reply], None]) -> None:
        """Send all questions concurrently; call ``on_reply`` with the index and the response of each as it arrives.

        An error ends the run, but responses to requests in progress are still passed on.

        Raises:
            BackendError: the server refuses a request as such (an unknown model, a wrong key …).
            DataError: an image cannot be read.
        """
        indices, lock = iter(range(len(questions))), threading.Lock()

        def answer_question(index: int, session: requests.Session, stop: threading.Event) -> None:
            reply = self._fetch_reply(session, questions[index], stop)
            if reply is not None:
                with lock:
                    on_reply(index, reply)

        run_jobs(
            self.endpoint,
            lambda number: [partial(answer_question, index) for index in islice(indices, number)],
            lambda _: None,
        )

    def _fetch_reply(
        self, session: requests.Session, question: Question, stop: threading.Event
    ) -> Reply | None:
        """Return the response; its text is None if none arrived. Return None if it was stopped before."""

        def build_body() -> dict[str, Any]:
            return {**self._parameters, "messages": _build_messages(question)}

        result = self.endpoint.allow_tokens(self._max_tokens).fetch_reply(
            session, build_body, read_reply, stop
        )
        if result is None:
            return None
        reply, problem = result
        return reply or Reply(None, problem)


def read_reply(response: Response) -> Reply | None:
    """Return the text of a response and why it ended; None if the response is invalid."""
    text = parse_text(response)
    return None if text is None else Reply(text, finish_reason=read_finish(response))


def load_chat(target: str, *, device: str, precision: str, name: str) -> ChatModel:
    """Return the model of a target ``MODEL@URL``; device and precision are the server's own.

    Raises:
        BackendError: the target has another form, or the key cannot be sent in a header.
    """
    address, wording = split_wording(target)
    return ChatModel(name, create_endpoint(address), wording)


def list_chat_problems(target: str) -> list[str]:
    """Return why requests to the model would fail: an invalid target, or a server that cannot be reached."""
    try:
        url = parse_target(split_wording(target)[0])[1]
    except BackendError as error:
        return [str(error)]
    host, port = str(url.hostname), url.port or (443 if url.scheme == "https" else 80)
    if select_proxy(url.geturl(), get_environ_proxies(url.geturl())):
        return []  # the proxy may reach it, even if this machine does not
    try:
        socket.create_connection((host, port), timeout=3).close()
    except (OSError, UnicodeError) as error:
        return [f"no server listens at {host}:{port} ({error}). Start the server, or correct the URL."]
    return []


def _build_messages(question: Question) -> list[dict[str, Any]]:
    """Return the turns of the question: its examples, each with its reply, and then itself."""
    earlier = [
        turn
        for example, reply in question.examples
        for turn in (*_build_messages(example), {"role": "assistant", "content": reply})
    ]
    image = {"type": "image_url", "image_url": {"url": encode_data_url(question.image())}}
    return [*earlier, {"role": "user", "content": [image, {"type": "text", "text": question.prompt}]}]


def encode_data_url(image: bytes) -> str:
    """Return an encoded image as a data URL; as an upright PNG if servers would decode it differently.

    Raises:
        DataError: it does not decode.
    """
    upright = decode_image(image, "of a question")
    with open_encoded_image(image, "of a question") as picture:
        media_type = SENT.get(picture.format or "")
        turned = picture.getexif().get(ORIENTATION, 1) != 1
    if media_type is None or turned:
        buffer = io.BytesIO()
        upright.save(buffer, "PNG")
        media_type, image = "image/png", buffer.getvalue()
    return f"data:{media_type};base64,{base64.b64encode(image).decode()}"


CHAT = Family(
    "chat",
    "chooser",
    "MODEL@URL",
    "chat endpoint of OpenAI's form, asked to choose",
    load=load_chat,
    missing=list_chat_problems,
)
