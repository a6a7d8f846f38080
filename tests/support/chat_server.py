"""A chat endpoint on the loopback interface, for tests: it reads images and prompts, and does as it is told."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from loopback import KeptHandler
from PIL import Image

from caramel.models.chat.model import CHAT, ChatModel, load_chat

CLOSE, HANG, DRIP, FLOOD = "close", "hang", "drip", "flood"  # instead of a response; the last two have no end
COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255), "green": (0, 128, 0)}


@dataclass(frozen=True)
class Request:
    """What a client asked."""

    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def prompt(self) -> str:
        return str(self.body["messages"][0]["content"][1]["text"])

    @property
    def url(self) -> str:
        return str(self.body["messages"][0]["content"][0]["image_url"]["url"])

    @property
    def image(self) -> bytes:
        return base64.b64decode(self.url.partition(",")[2])

    @property
    def options(self) -> dict[str, str]:
        """Letter -> caption."""
        return dict(re.findall(r"^([A-D])\. (.*)$", self.prompt, re.MULTILINE))


@dataclass(frozen=True)
class Response:
    """What the server sends: a status, headers and any bytes."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Behaviour = Callable[[Request, int], Response | str]


def says(text: str | None, **more: object) -> Response:
    """A chat completion with these words."""
    message = {"role": "assistant", "content": text, **more}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return Response(body=json.dumps({"id": "1", "choices": [choice]}).encode())


def refuses(status: int, message: str, code: str | None = None, **headers: str) -> Response:
    """An error of OpenAI's form; ``Retry_After`` becomes ``Retry-After``."""
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    return Response(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def always(text: str) -> Behaviour:
    return lambda request, number: says(text)


def delay(behave: Behaviour, seconds: float) -> Behaviour:
    """Behave so after a time, as a model does: a test of what is under way meanwhile needs it."""

    def behave_later(request: Request, number: int) -> Response | str:
        time.sleep(seconds)
        return behave(request, number)

    return behave_later


def in_turn(*answers: Response | str) -> Behaviour:
    """Each answer once, in order, and the last one for ever."""
    return lambda request, number: answers[min(number, len(answers) - 1)]


def right(request: Request, number: int) -> Response:
    """Look at the image, one colour, and choose by the captions, which name colours."""
    return says(right_letter(request))


def right_letter(request: Request) -> str:
    colour = colour_of(request.image)
    captions = {letter: text for letter, text in request.options.items() if not text.startswith("none")}
    true = [letter for letter, text in captions.items() if colour in text]
    wanted = sorted(set(captions) - set(true)) if len(captions) == 3 else true
    assert len(wanted) == 1, (colour, request.options)
    return wanted[0]


def colour_of(image: bytes) -> str:
    pixel = Image.open(io.BytesIO(image)).convert("RGB").getpixel((0, 0))
    return next(name for name, value in COLOURS.items() if value == pixel)


def picture(colour: str, size: tuple[int, int] = (8, 8), kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, COLOURS[colour]).save(buffer, kind)
    return buffer.getvalue()


class ChatServer:
    """The server: ``behave`` decides, by request and its number from 0, what is sent."""

    def __init__(self, behave: Behaviour = right) -> None:
        self.behave = behave
        self.requests: list[Request] = []
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(KeptHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = Request(self.path, dict(self.headers), json.loads(body))
                with server._lock:
                    number = len(server.requests)
                    server.requests.append(request)
                answer = server.behave(request, number)
                if isinstance(answer, str):
                    if answer == HANG:
                        server._ended.wait(30)
                    elif answer in (DRIP, FLOOD):
                        self._endless(b" " if answer == DRIP else bytes(2**16))
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def _endless(self, part: bytes) -> None:
                """Send the same bytes again and again, until the client has enough."""
                self.send_response(200)
                self.end_headers()
                with contextlib.suppress(OSError):
                    while not server._ended.wait(0.01):
                        self.wfile.write(part)

        return Handler


def load_quick(target: str, *, device: str, precision: str, name: str) -> ChatModel:
    """The family ``chat``, without long pauses."""
    model = load_chat(target, device=device, precision=precision, name=name)
    return replace(model, endpoint=replace(model.endpoint, pause=0.001, max_attempts=2, timeout=5))


QUICK = replace(CHAT, load=load_quick)
