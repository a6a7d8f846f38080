"""Serve a task with uvicorn: on loopback with one secret, or on another address with accounts."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping

from caramel.annotation.server import AnnotationApp
from caramel.annotation.store import AnswerStore
from caramel.errors import ConfigError, ResourceError

LOOPBACK = "127.0.0.1"


def list_hosts(address: str, port: int) -> list[str]:
    """Return the values of the header Host that a server on an address answers.

    Raises:
        ConfigError: the address is a wildcard, which names no host that could be checked.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return [f"{address}:{port}"]
    if parsed.is_unspecified:
        raise ConfigError(
            f"--share-on {address} would serve on all addresses. Give the one address under which annotators reach this "
            "machine."
        )
    names = [
        f"[{address}]" if parsed.version == 6 else address,
        *(["localhost"] if parsed.is_loopback else []),
    ]
    return [f"{name}:{port}" for name in names]


def open_socket(address: str, port: int) -> socket.socket:
    """Return a socket that listens on an address and port; port 0 takes a free one.

    Raises:
        ResourceError: it cannot be used.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ResourceError(
            f"Port {port} on {address} cannot be used: {error.strerror or error}. Try `--port {port + 1}`."
        ) from error
    return listener


def serve_task(
    store: AnswerStore, accounts: Mapping[str, str], listener: socket.socket, address: str
) -> None:
    """Serve a task until the process is interrupted.

    Args:
        store: the task's items and answers.
        accounts: hash of the secret by annotator.
        listener: a listening socket.
        address: its address or host name, as annotators write it.
    """
    import uvicorn

    port = listener.getsockname()[1]
    store.renew_assignments()
    app = AnnotationApp(store, accounts).build(list_hosts(address, port))
    # No access log: it would hold the secrets of links. No proxy: its headers could name any host.
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listener])
