"""Parse targets of chat endpoints: ``MODEL@URL``, or ``MODEL@URL#SETTING,SETTING…`` for unusual servers.

    max_completion_tokens   the limit of a response is sent under this name, because ``max_tokens`` is refused. It
                            includes the tokens of a model's reasoning before the answer
    no_temperature          no temperature is sent; the server's default is used
    no_seed                 no seed is sent
    content_parts           texts are sent as a list of one part, not as a string
    wording=NAME            for multiple choice: the published question to ask (``split_wording``)

The user names the settings; they are never inferred from a refusal. A setting affects the responses. It is
therefore part of the target, which is tracked with runs, and of the identity, under which responses are
stored. Without temperature and seed a server samples its text. Repeated requests then give other responses,
and only the stored ones are reproducible.
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
_WORDING = "wording="
_TARGET = re.compile(r"(?P<model>.+?)@(?P<url>https?://\S+)")
COMPLETION_TOKENS: Setting = "max_completion_tokens"
# A parameter that servers refuse -> the setting that avoids it.
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
    """Return model, URL without a final slash, and settings.

    Raises:
        BackendError: the target does not have the form ``MODEL@URL`` or ``MODEL@URL#SETTING,SETTING…``.
    """
    address, _, fragment = target.partition("#")
    match = _TARGET.fullmatch(address)
    try:
        url = urlsplit(match["url"].rstrip("/") if match else "")
        valid = bool(url.hostname) and url.port != 0
    except ValueError:  # invalid port, or invalid brackets
        valid = False
    if match is None or not valid:
        raise BackendError(
            f"Chat model {redact_secrets(target)!r} must be MODEL@URL, such as gpt-4o@http://127.0.0.1:8000/v1."
        )
    settings = parse_settings(fragment)
    if url.username is not None or url.query:
        raise BackendError(
            f"The URL of chat model {match['model']!r} must end with its path, or with # and settings "
            f"({', '.join(SETTINGS)}), and must contain neither user nor password: set the key in {KEY}."
        )
    return match["model"], url, settings


def parse_settings(text: str) -> Settings:
    """Return the settings in a comma-separated list; none for an empty one.

    Raises:
        BackendError: a name is unknown; it may be a secret, so the message does not repeat it.
    """
    names = text.split(",") if text else []
    settings: Settings = frozenset(setting for setting in SETTINGS if setting in names)
    if len(settings) < len(names):
        raise BackendError(
            f"After the # of a chat model's URL, give settings separated by commas and without duplicates: "
            f"{', '.join(SETTINGS)}. Set a key in {KEY}, not there."
        )
    return settings


def split_wording(target: str) -> tuple[str, str]:
    """Return a target without its setting ``wording=NAME``, and NAME; an empty name if it has none."""
    address, _, fragment = target.partition("#")
    names = fragment.split(",") if fragment else []
    wordings = [name for name in names if name.startswith(_WORDING)]
    rest = ",".join(name for name in names if name not in wordings[:1])
    wording = wordings[0].removeprefix(_WORDING) if wordings else ""
    return (f"{address}#{rest}" if rest else address), wording


def format_settings(settings: Settings) -> str:
    """Return settings as they are written in a target, in the order of ``SETTINGS``."""
    return ",".join(setting for setting in SETTINGS if setting in settings)


def apply_settings(body: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the body of a request, adapted to an endpoint with these settings."""
    renamed = {"max_tokens": COMPLETION_TOKENS} if COMPLETION_TOKENS in settings else {}
    adapted = {renamed.get(name, name): value for name, value in body.items() if f"no_{name}" not in settings}
    if "content_parts" in settings and "messages" in adapted:
        adapted["messages"] = [_split_content(message) for message in adapted["messages"]]
    return adapted


def find_setting(message: str, settings: Settings) -> Setting | None:
    """Return the setting that avoids a server's refusal of a parameter; None if its message refuses none.

    A value that is too large is not such a refusal: it concerns one request alone.
    """
    for parameter, setting in _CURES.items():
        refused = _NO_LIST if parameter == "content" else _REFUSED
        if setting not in settings and is_refused(parameter, message, refused):
            return setting
    return None


def is_refused(parameter: str, message: str, refused: re.Pattern[str] = _REFUSED) -> bool:
    """Return whether a server's message refuses a parameter as such."""
    return bool(re.search(rf"\b{parameter}\b", message) and refused.search(message))


def _split_content(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": parts}
