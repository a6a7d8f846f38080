"""Check the MLflow server that ``CARAMEL_TRACKING_URI`` names, and explain its errors.

MLflow itself waits for an unavailable server, as ``MLFLOW_HTTP_REQUEST_MAX_RETRIES`` says: four minutes in
all. A running run needs that when server or database restart, but it is too long for a misspelled name.
"""

from __future__ import annotations

import os
import re
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from caramel.errors import CaramelError, ConfigError, ResourceError, redact_secrets
from caramel.runtime.mlflow.retry import enable_retries

if TYPE_CHECKING:
    from requests import Response

NAME = "CARAMEL_TRACKING_URI"
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")  # databases that MLflow opens without a server
LOGIN = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
LOOKED_FOR = "/api/2.0/mlflow/experiments/search?max_results=1"  # needs login and database, unlike /health
VERSION = "/version"  # for a server without an experiment that this user may see
ANSWER = 5.0  # seconds without a sign of the server, and for the body of one reply
WHOLE = 15.0  # seconds for one reply with its headers
PAUSES = (1.0, 2.0, 4.0)  # seconds between the tries of a check: a restarting server may be back
AWAY = ("TEMPORARILY_UNAVAILABLE", "INTERNAL_ERROR", "REQUEST_LIMIT_EXCEEDED", "DEADLINE_EXCEEDED")


def get_tracking_server() -> str:
    """Return the address of the server that ``CARAMEL_TRACKING_URI`` names; empty if runs go to a database.

    Raises:
        ConfigError: it is neither the address of a server nor of a database.
    """
    return parse_server_address(os.environ.get(NAME, ""))


def parse_server_address(address: str) -> str:
    """Return the address of a server; empty for a database's address or an empty one.

    Raises:
        ConfigError: it is neither, or a database whose driver is missing.
    """
    if not address:
        return ""
    if address.partition("://")[0].partition("+")[0] in DATABASES:
        _require_driver(address)
        return ""
    try:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return address
    except ValueError:  # invalid port
        pass
    raise ConfigError(
        f"{_format_address(address)} is not the address of an MLflow server. Give http://HOST:PORT or https://HOST{_format_unset_hint(address)}."
    )


def _require_driver(address: str) -> None:
    """Check that SQLAlchemy can open a database's address; MLflow's own errors repeat the password."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import SQLAlchemyError

    try:
        make_url(address).get_dialect().import_dbapi()
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise ConfigError(
            f"The database at {_format_address(address)} cannot be opened: {type(error).__name__}: {error}. Install the driver that the "
            f"address names, or fix the address{_format_unset_hint(address)}."
        ) from error


def _format_address(address: str) -> str:
    """Return an address for messages, with the variable that holds it."""
    return (
        f"{NAME}={redact_secrets(address)!r}"
        if address == os.environ.get(NAME, "")
        else repr(redact_secrets(address))
    )


def _format_unset_hint(address: str) -> str:
    return f"; without {NAME} runs are tracked in mlruns/" if address == os.environ.get(NAME, "") else ""


def get_server_environment() -> dict[str, str]:
    """Return the variables that a process on another machine needs to reach the server as this one does."""
    wanted = (NAME, "MLFLOW_TRACKING_", "MLFLOW_HTTP_REQUEST_")
    return {name: value for name, value in os.environ.items() if name.startswith(wanted)}


def require_server(address: str | None = None) -> None:
    """Check that the server is available, accepts this user and reaches its database.

    A database's address passes.

    Without an address, the server of ``CARAMEL_TRACKING_URI`` is checked, if one is named. A server that does
    not answer, or cannot reach its database, is tried again for some seconds.

    Raises:
        ConfigError: the address is invalid, something else answers there, or the user is refused.
        ResourceError: nothing answers, or the server reports trouble.
    """
    address = parse_server_address(os.environ.get(NAME, "") if address is None else address)
    if not address:
        return
    for pause in (*PAUSES, None):
        error = _find_problem(address)
        if error is None:
            return
        if pause is None or not isinstance(error, ResourceError):
            raise error
        time.sleep(pause)


def _find_problem(address: str) -> CaramelError | None:
    """Query the server once, as MLflow would, and return the problem, if any."""
    from mlflow.exceptions import MlflowException

    from caramel.runtime.mlflow.http import is_empty_answer, is_search_answer, is_version

    try:
        reply = _get_reply(address, LOOKED_FOR)
        if reply.ok and is_empty_answer(reply.text):
            reply = _get_reply(address, VERSION)
            is_server = reply.ok and is_version(reply.text)
        else:
            is_server = reply.ok and is_search_answer(reply.text)
    except MlflowException as error:
        return build_unavailable_error(address, str(_find_root_cause(error)))
    if is_server:
        return None
    if reply.status_code in (401, 403):
        return build_refusal_error(address, reply.status_code, reply.text)
    message = f"it answers {reply.status_code}: {_shorten_reply(reply.headers.get('Location') or reply.text)}"
    return (
        build_unavailable_error(address, message)
        if reply.status_code >= 500
        else _build_foreign_error(address, message)
    )


def _get_reply(address: str, path: str) -> Response:
    """Return the reply to one request, as MLflow sends it.

    Raises:
        MlflowException: there is no reply, or it takes longer than ``WHOLE``.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.tracking._tracking_service.utils import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    enable_retries()
    replies: list[Response | MlflowException] = []

    def send_request() -> None:
        once = {"max_retries": 0, "timeout": ANSWER, "raise_on_status": False}
        try:
            replies.append(http_request(get_default_host_creds(address), path, "GET", **once))
        except MlflowException as error:
            replies.append(error)

    # In a thread, because no timeout covers headers that arrive byte by byte.
    thread = threading.Thread(target=send_request, daemon=True)
    thread.start()
    thread.join(WHOLE)
    if not replies:
        raise MlflowException(f"it did not answer within {WHOLE:.0f} s")
    if isinstance(replies[0], MlflowException):
        raise replies[0]
    return replies[0]


def _build_foreign_error(address: str, message: str) -> ConfigError:
    """Return the error of something at the address that is no MLflow server."""
    return ConfigError(
        f"What answers at {_format_address(address)} is no MLflow server: {message}. Is the address right?"
    )


def build_unavailable_error(address: str, message: str) -> ResourceError:
    """Return the error for a server that does not answer, or reports trouble."""
    return ResourceError(
        f"The MLflow server at {_format_address(address)} cannot be used now: {message}. Start it, and its database (or mend the "
        f"address), and run this again{_format_unset_hint(address)}."
    )


def build_refusal_error(address: str, status: int, message: str) -> ConfigError:
    """Return the error for a server that refuses this user."""
    if "Host header" in message:
        host = urlsplit(address).netloc.rpartition("@")[2]
        cure = f"Start it with `--allowed-hosts {host}`, or name it by its number"
    elif status == 401:
        given = [name for name in LOGIN if os.environ.get(name)]
        cure = (
            f"It refuses the user {os.environ[LOGIN[0]]!r}: mend {' and '.join(LOGIN)}"
            if len(given) == len(LOGIN)
            else f"It asks for name and password: set {' and '.join(n for n in LOGIN if n not in given)}"
        )
    else:
        cure = "This user may not do that: its owner gives the permission"
    return ConfigError(
        f"The MLflow server at {_format_address(address)} answers {status}: {_shorten_reply(message)} {cure}."
    )


def explain_error(error: Exception, address: str) -> CaramelError | None:
    """Return what an error of MLflow means for the user; None if the server is not its cause."""
    from google.protobuf.json_format import ParseError
    from requests import RequestException

    if isinstance(error, ParseError):
        return _build_foreign_error(address, f"its reply is none of MLflow's: {_shorten_reply(str(error))}")
    if isinstance(error, RequestException):
        return build_unavailable_error(address, _shorten_reply(redact_secrets(str(_find_root_cause(error)))))
    code = getattr(error, "error_code", "")
    if code in ("UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED"):
        return build_refusal_error(address, 401, _extract_body(error))
    if code == "PERMISSION_DENIED":
        return build_refusal_error(address, 403, _extract_body(error))
    return (
        build_unavailable_error(address, _shorten_reply(str(_find_root_cause(error))))
        if code in AWAY
        else None
    )


def _find_root_cause(error: BaseException) -> BaseException:
    """Return the root cause of an error: for a failed request, the system's error."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def _extract_body(error: Exception) -> str:
    """Return the server's message without MLflow's text around it."""
    return str(error).partition("Response body: ")[2] or str(error)


def _shorten_reply(text: str) -> str:
    """Return the beginning of a server's message as one line."""
    line = " ".join(re.sub(r"<[^<>]*>", " ", text[:100_000]).split())
    return line if len(line) <= 200 else f"{line[:200]} …"
