"""Decide which requests the annotation server answers: right host, right origin, known annotator.

- Host: a page of another site whose name resolves to this machine (DNS rebinding) names another host.
- Origin: a page of another site may send requests, but its browser names the site. A proxy that ends TLS may name this
  machine in the header Host, and the public host in Origin.
- Cookie: it is set once a link with a valid secret was opened; scripts cannot read it (HttpOnly), and browsers do not send
  it with requests that other sites cause (SameSite=Strict).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from caramel.annotation.accounts import find_annotator

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
UNKNOWN = "This link is not valid, or no longer. Open the link that you were given, or that `caramel annotate serve` printed."


def name_cookie(request: Request) -> str:
    """Return the cookie's name. Browsers share cookies between the ports of a host, hence the port."""
    return f"caramel_annotate_{request.url.port or request.url.scheme}"


def get_annotator(request: Request, accounts: Mapping[str, str]) -> str | None:
    """Return the annotator of a request's cookie, or None."""
    secret = request.cookies.get(name_cookie(request))
    return find_annotator(accounts, secret) if secret else None


class GuardedAccess:
    """ASGI middleware: refuse requests to other hosts and from other origins, and set the security headers."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        """Store the application, and the origins under which browsers reach it."""
        self._app, self._origins = app, frozenset(origins)
        schemes = {urlsplit(origin).netloc: urlsplit(origin).scheme for origin in origins}
        # Behind a proxy that ends TLS the cookie must be `Secure`, also where the proxy names this machine as the host.
        encrypted = "https" in schemes.values()
        self._schemes = {host: "https" if encrypted else scheme for host, scheme in schemes.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with 403 or 415."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        app = self._refuse(Headers(scope=scope), scope["method"]) or self._app
        scope["scheme"] = self._schemes.get(Headers(scope=scope).get("host", ""), "http")
        await app(scope, receive, send_with_headers)

    def _refuse(self, headers: Headers, method: str) -> Response | None:
        if headers.get("host") not in self._schemes:
            return PlainTextResponse("This host name is not served.", 403)
        if method != "POST":
            return None
        if headers.get("origin") not in self._origins:
            return PlainTextResponse("Requests from other origins are refused.", 403)
        if headers.get("content-type", "").partition(";")[0] != "application/json":
            return PlainTextResponse("Only JSON is accepted.", 415)
        return None
