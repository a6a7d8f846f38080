"""Read replies of an MLflow server, and check their form before MLflow uses them.

Another server may be at its address.
"""

from __future__ import annotations

import re

import requests
from requests.exceptions import InvalidJSONError

from caramel.io.readers import try_parse_json
from caramel.runtime.http import read_body

LARGEST = 2**26  # bytes of a reply, except files; a page of 200 runs has a few megabytes
LISTING = "/mlflow-artifacts/artifacts"  # end of the URL of a list of files
_VERSION = re.compile(r"\d+\.\d+\.\d+[\w.+-]{0,20}")


def read_reply(response: requests.Response, method: str, url: str, seconds: float) -> requests.Response:
    """Read the body of a response that was requested with ``stream=True``, and return the response.

    Args:
        response: a response whose headers were read.
        method, url: method and URL of the request.
        seconds: time limit for the complete body.

    Raises:
        RequestException: the body is longer than ``LARGEST``, compressed, slow or of another form.
    """
    with response:
        body = read_body(response, seconds, LARGEST)
    response._content, response._content_consumed = body, True
    response.encoding = response.encoding or "utf-8"  # guessing it takes minutes for some megabytes
    if response.ok and method == "GET" and url.endswith(LISTING) and not _is_listing(try_parse_json(body)):
        raise InvalidJSONError("its list of artifacts is none")
    if not response.ok:
        match try_parse_json(body):
            case {"error_code": code} if not isinstance(code, str | int | None):
                raise InvalidJSONError(f"it answers {response.status_code} with an error code that is none")
    return response


def _is_listing(value: object) -> bool:
    """Return whether a reply is a list of artifacts.

    ``{"files": [{"path": …, "is_dir": …, "file_size": …}]}``.
    """
    match value:
        case {"files": [*entries]}:
            return all(map(_is_entry, entries))
        case {**rest}:
            return not rest
    return False


def _is_entry(value: object) -> bool:
    match value:
        case {"path": str(), "is_dir": bool(), "file_size": int() | str() as size}:
            return str(size).isdecimal() and len(str(size)) < 20
        case {"path": str(), "is_dir": bool(), **rest}:
            return "file_size" not in rest
    return False


def is_search_answer(text: str) -> bool:
    """Return whether a text is MLflow's answer to a search for experiments that found one."""
    match try_parse_json(text):
        case {"experiments": [{"experiment_id": str(identity), "name": str()}, *_]}:
            return bool(identity)
    return False


def is_empty_answer(text: str) -> bool:
    """Return whether a text is MLflow's answer to a search without results; other servers may give it too."""
    return try_parse_json(text) in ({}, {"experiments": []})


def is_version(text: str) -> bool:
    """Return whether a text is the version of an MLflow server."""
    return _VERSION.fullmatch(text.strip()) is not None
