"""Run a server on the loopback interface for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class KeptHandler(BaseHTTPRequestHandler):
    """A handler that keeps its connections, answers on them at once, and writes no log."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or replies on a kept connection wait for 40 ms

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Yield the port of a server that answers by this handler."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
