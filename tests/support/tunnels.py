"""A tunnel to a local port, as `ssh -L` makes one, or a proxy that ends TLS, as stunnel is one."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def forwarding(target: int, listener: socket.socket, context: ssl.SSLContext | None = None) -> Iterator[None]:
    """Forward the connections of a listening socket to a port of this machine; with a context, end TLS."""
    stopped = threading.Event()

    def accept() -> None:
        while not stopped.is_set():
            with suppress(OSError):  # a browser that ends the handshake, and the end of the test
                client, _ = listener.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    def serve(client: socket.socket) -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", target)) as server:
            stream = context.wrap_socket(client, server_side=True) if context else client
            back = threading.Thread(target=copy, args=(server, stream), daemon=True)
            back.start()
            copy(stream, server)
            back.join()

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
