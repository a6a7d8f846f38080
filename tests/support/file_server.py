"""A server of one file on the loopback interface that may end connections early, ignore ranges, or fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from loopback import KeptHandler, listening

CONTENT = bytes(range(256)) * 40


@dataclass
class Source:
    """A server of one content that may end connections early, ignore ranges, or fail."""

    content: bytes = CONTENT
    cut: int | None = None  # bytes of a reply before the connection ends, once per entry
    cuts: int = 0  # number of replies that are cut
    ranges: bool = True
    status: int = 200
    url: str = ""
    asked: list[str | None] = field(default_factory=list)  # header Range of each request
    logins: list[str | None] = field(default_factory=list)


@contextmanager
def serve(source: Source) -> Iterator[Source]:
    class Handler(KeptHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            source.asked.append(wanted)
            source.logins.append(self.headers.get("Authorization"))
            begin = int(wanted[6:].rstrip("-")) if wanted and source.ranges else 0
            body = source.content[begin:]
            outside = begin >= len(source.content)
            self.send_response(416 if outside else 206 if begin else source.status)
            if begin:
                self.send_header(
                    "Content-Range", f"bytes {begin}-{len(source.content) - 1}/{len(source.content)}"
                )
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if source.cuts:
                source.cuts -= 1
                self.wfile.write(body[: source.cut])
                self.close_connection = True
            else:
                self.wfile.write(body)

    with listening(Handler) as port:
        source.url = f"http://127.0.0.1:{port}"
        yield source
