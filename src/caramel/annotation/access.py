"""Decide which requests the annotation server answers: right host, right origin, known annotator.

- Host: a page of another site whose name resolves to this machine (DNS rebinding) names another host.
- Origin: a page of another site may send requests, but its browser names the site.
- Cookie: it is set once a link with a valid secret was opened; scripts cannot read it (HttpOnly), and browsers do not send
  it with requests that other sites cause (SameSite=Strict).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from caramel.annotation.accounts import find_annotator

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
UNKNOWN = "This link is not valid, or no longer. Open the link that you were given, or that `caramel annotate serve` printed."


def name_cookie(request: Request) -> str:
    """Return the cookie's name. Browsers share cookies between the ports of a host, hence the port."""
    return f"caramel_annotate_{request.url.port or 80}"


def get_annotator(request: Request, accounts: Mapping[str, str]) -> str | None:
    """Return the annotator of a request's cookie, or None."""
    secret = request.cookies.get(name_cookie(request))
    return find_annotator(accounts, secret) if secret else None


class GuardedAccess(BaseHTTPMiddleware):
    """Refuse requests to other hosts and from other origins, and set the security headers."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        """Store the values of the header Host that are answered."""
        super().__init__(app)
        self._hosts = frozenset(hosts)

    async def dispatch(
        self, request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Answer a request, or refuse it with 403 or 415."""
        response = self._refuse(request) or await call_next(request)
        for name, value in HEADERS.items():
            response.headers[name] = value
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _refuse(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if host not in self._hosts:
            return PlainTextResponse("This host name is not served.", 403)
        if request.method != "POST":
            return None
        if request.headers.get("origin") != f"http://{host}":
            return PlainTextResponse("Requests from other origins are refused.", 403)
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return PlainTextResponse("Only JSON is accepted.", 415)
        return None
