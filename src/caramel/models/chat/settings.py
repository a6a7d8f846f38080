"""Targets of chat endpoints: ``MODEL@URL``, or ``MODEL@URL#SETTING,SETTING…`` of one that wants what most do not.

    max_completion_tokens   the bound of a reply is sent by this name: ``max_tokens`` is refused. It counts the tokens
                            that a model thinks before it answers
    no_temperature          no temperature is sent; the server's default holds
    no_seed                 no seed is sent
    content_parts           texts are sent as a list of one part, not as a string

A setting is named by the user, and never guessed from a refusal: it decides the replies, so it stands in the target, which
runs are tracked with, and in the identity, by which replies are stored. Without temperature and seed a server draws its
words: replies that are asked for again differ, and only the stored ones can be had again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args
from urllib.parse import SplitResult, urlsplit

from caramel.errors import BackendError, redact_secrets

Setting = Literal["max_completion_tokens", "no_temperature", "no_seed", "content_parts"]
Settings = frozenset[Setting]
SETTINGS: tuple[Setting, ...] = get_args(Setting)
KEY = "CARAMEL_CHAT_KEY"
_TARGET = re.compile(r"(?P<model>.+?)@(?P<url>https?://\S+)")
COMPLETION_TOKENS: Setting = "max_completion_tokens"
# A parameter that servers refuse -> the setting that meets it.
_CURES: Mapping[str, Setting] = {
    "max_tokens": COMPLETION_TOKENS,
    "temperature": "no_temperature",
    "seed": "no_seed",
    "content": "content_parts",
}
_REFUSED = re.compile(
    r"(?:un|not |n't )support|unrecogni[sz]ed|unknown|unexpected|not (?:permitted|allowed|accepted)|extra_forbidden",
    re.IGNORECASE,
)
_NO_LIST = re.compile(r"\b(?:list|array|sequence)\b", re.IGNORECASE)


def parse_target(target: str) -> tuple[str, SplitResult, Settings]:
    """Return model, URL, without a slash at its end, and settings.

    Raises:
        BackendError: the target is not of the form ``MODEL@URL`` or ``MODEL@URL#SETTING,SETTING…``.
    """
    address, _, fragment = target.partition("#")
    match = _TARGET.fullmatch(address)
    try:
        url = urlsplit(match["url"].rstrip("/") if match else "")
        valid = bool(url.hostname) and url.port != 0
    except ValueError:  # of a port, or of brackets
        valid = False
    if match is None or not valid:
        raise BackendError(
            f"Chat model {redact_secrets(target)!r} must be MODEL@URL, such as gpt-4o@http://127.0.0.1:8000/v1."
        )
    settings = parse_settings(fragment)
    if url.username is not None or url.query:
        raise BackendError(
            f"The URL of chat model {match['model']!r} must end with its path, or with # and settings "
            f"({', '.join(SETTINGS)}), and hold neither user nor password: give the key in {KEY}."
        )
    return match["model"], url, settings


def parse_settings(text: str) -> Settings:
    """Return the settings of a list that is joined by commas; none of an empty one.

    Raises:
        BackendError: a name is not known; it may be a secret, so that the message does not repeat it.
    """
    names = text.split(",") if text else []
    settings: Settings = frozenset(setting for setting in SETTINGS if setting in names)
    if len(settings) < len(names):
        raise BackendError(
            f"Behind the # of a chat model's URL stand settings, each once and joined by commas: {', '.join(SETTINGS)}. "
            f"Give a key in {KEY}, not there."
        )
    return settings


def format_settings(settings: Settings) -> str:
    """Return settings as they stand in a target, in the order of ``SETTINGS``."""
    return ",".join(setting for setting in SETTINGS if setting in settings)


def apply_settings(body: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the body of a request as an endpoint of these settings takes it."""
    renamed = {"max_tokens": COMPLETION_TOKENS} if COMPLETION_TOKENS in settings else {}
    adapted = {renamed.get(name, name): value for name, value in body.items() if f"no_{name}" not in settings}
    if "content_parts" in settings and "messages" in adapted:
        adapted["messages"] = [_split_content(message) for message in adapted["messages"]]
    return adapted


def find_setting(message: str, settings: Settings) -> Setting | None:
    """Return the setting that meets a server's refusal of a parameter; None if its message refuses none.

    A value that is too large is no such refusal: it concerns one request alone.
    """
    for parameter, setting in _CURES.items():
        refused = _NO_LIST if parameter == "content" else _REFUSED
        if setting not in settings and re.search(rf"\b{parameter}\b", message) and refused.search(message):
            return setting
    return None


def _split_content(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": parts}
