"""Parse responses of chat endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from caramel.io.readers import try_parse_json

LARGEST = 2**18  # bytes of a response; one of a hundred tokens has a few hundred


class Response(NamedTuple):
    """A response that has been read completely."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    seconds: float = 0.0  # from request to response


def parse_text(response: Response) -> str | None:
    """Return the text of a response; "" if a content filter withheld it; None if the response is invalid."""
    match response.status, try_parse_json(response.content):
        case 200, {"choices": [{"message": {"content": str(text)}}, *_]}:
            return text
        case 200, {"choices": [{"message": {"content": [*parts]}}, *_]}:
            return _join_parts(parts)
        case 200, {"choices": [{"message": {"content": None, "refusal": str(text)}}, *_]}:
            return text
        case 200, {"choices": [{"message": {"content": None}} | {"finish_reason": "content_filter"}, *_]}:
            return ""
        # Azure, about the prompt: a repeated request would fail too
        case 400, {"error": {"code": "content_filter"}}:
            return ""
    return None


def _join_parts(parts: list[object]) -> str | None:
    """Return the text of a list of parts, without other parts such as reasoning; None if it is not such a list."""
    texts: list[str] = []
    for part in parts:
        match part:
            case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
                texts.append(text)
            case {"type": str(form)} if form not in ("text", "refusal"):
                continue
            case _:
                return None
    return "".join(texts)


def read_finish(response: Response) -> str:
    """Return why a response ended, in the server's word: ``stop``, ``length`` …; ``stop`` if it is not stated."""
    match try_parse_json(response.content):
        case {"choices": [{"finish_reason": str(finish)}, *_]} | {"error": {"code": str(finish)}}:
            return finish[:40]
    return "stop"


def parse_error_message(response: Response) -> str:
    """Return the server's error message."""
    match try_parse_json(response.content):
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)}:
            return text
    return response.content.decode(errors="replace") or response.headers.get("Location", "") or "no message"
