"""A small HTTP server on the loopback interface that keeps the headers of all requests."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loopback import KeptHandler, listening


@dataclass
class Recorder:
    """What a server answers, and the requests that it got.

    It answers with files of a folder, redirects to another server, or passes requests on to one; with a login it answers
    401 to all who do not have it.
    """

    folder: Path | None = None
    redirect: str | None = None
    forward_port: int | None = None
    login: tuple[str, str] | None = None
    port: int = 0
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def logins(self) -> set[str | None]:
        """The different values of header Authorization, None of a request without."""
        return {headers.get("authorization") for _, headers in self.requests}

    @property
    def text(self) -> str:
        """All that it was sent."""
        return repr(self.requests)


def basic(user: str, password: str) -> str:
    """Return the header Authorization of a user."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@contextmanager
def recording(**answers: object) -> Iterator[Recorder]:
    """Serve until the end of the block; see ``Recorder``."""
    recorder = Recorder(**answers)  # type: ignore[arg-type]

    class Handler(KeptHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            recorder.requests.append((f"{self.command} {self.path}", headers))
            if recorder.login and headers.get("authorization") != basic(*recorder.login):
                self._answer(401, b"", {})
            elif recorder.redirect:
                self._answer(302, b"", {"Location": recorder.redirect + self.path})
            elif recorder.forward_port:
                self._forward()
            elif recorder.folder and (path := recorder.folder / self.path.lstrip("/")).is_file():
                self._answer(200, path.read_bytes(), {})
            else:
                self._answer(404, b"", {})

        do_HEAD = do_GET

        def _forward(self) -> None:
            assert recorder.forward_port is not None
            connection = http.client.HTTPConnection("127.0.0.1", recorder.forward_port, timeout=60)
            connection.request(self.command, self.path, headers=dict(self.headers.items()))
            got = connection.getresponse()
            kept = ("etag", "content-type", "x-amz-bucket-region", "last-modified")
            self._answer(got.status, got.read(), {n: v for n, v in got.getheaders() if n.lower() in kept})
            connection.close()

        def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    with listening(Handler) as port:
        recorder.port = port
        yield recorder
