"""Serve a task with uvicorn: on loopback with one secret, or on another address with accounts."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from caramel.annotation.server import AnnotationApp, GetAccounts
from caramel.annotation.store import AnswerStore
from caramel.errors import ConfigError, ResourceError

LOOPBACK = "127.0.0.1"
DEFAULT_PORTS = {"http": 80, "https": 443}  # browsers leave them out


def list_origins(address: str, port: int, public_url: str | None = None) -> list[str]:
    """Return the origins under which browsers reach a server; the first one is for the link.

    Args:
        public_url: the origin of a tunnel or proxy in front of the server.

    Raises:
        ConfigError: the address is a wildcard, which names no host that could be checked, or the URL is more than an origin.
    """
    public = [_parse_public_url(public_url)] if public_url else []
    return [*public, *(_format_origin("http", name, port) for name in _list_names(address))]


def _list_names(address: str) -> list[str]:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return [address.lower()]
    if parsed.is_unspecified:
        raise ConfigError(
            f"--share-on {address} would serve on all addresses. Give the one address under which annotators reach this "
            "machine."
        )
    return [str(parsed), *(["localhost"] if parsed.is_loopback else [])]


def _parse_public_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"--public-url {url!r} is no URL: {error}.") from error
    more = parts.path.strip("/") or parts.query or parts.fragment or parts.username or parts.password
    if scheme not in DEFAULT_PORTS or not host or more:
        raise ConfigError(
            f"--public-url {url!r} must be http:// or https://, a host and perhaps a port, such as "
            "https://annotate.example.org. The page cannot be served below a path."
        )
    return _format_origin(scheme, host, port or DEFAULT_PORTS[scheme])


def _format_origin(scheme: str, host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}" if port == DEFAULT_PORTS[scheme] else f"{scheme}://{name}:{port}"


def open_socket(address: str, port: int) -> socket.socket:
    """Return a socket that listens on an address and port; port 0 takes a free one.

    Raises:
        ResourceError: it cannot be used.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # asyncio turns off Nagle's algorithm only if the protocol is stated; otherwise replies on a kept connection wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
    store: AnswerStore, get_accounts: GetAccounts, listener: socket.socket, origins: Sequence[str]
) -> None:
    """Serve a task until the process is interrupted.

    Args:
        store: the task's items and answers.
        get_accounts: returns the hash of the secret by annotator.
        listener: a listening socket.
        origins: see ``list_origins``.
    """
    import uvicorn

    store.extend_assignments()
    app = AnnotationApp(store, get_accounts).build(origins)
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
