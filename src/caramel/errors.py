"""The exception tree: everything that a user can cause.

    CaramelError
    ├── ConfigError      params.yaml or a command-line value is wrong
    ├── DataError        an input file is missing, broken or not what it should be
    │   └── ContractError    a table does not keep its contract (``schemas``)
    ├── GateError        a quality gate failed: the data must not be used
    ├── BackendError     an unknown backend, or a model that cannot be loaded
    └── ResourceError    disk full, a lock held, a worker that keeps dying

A message says what, the offending value, where, and what to do. The command line and
the stages print the message without a traceback and exit with code 1; what they print goes
through ``printable``.
"""

import re

# Signs that steer a terminal (C0 and C1 but tab and new line), turn the direction of a line, or are no text.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# A password may hold a slash, which a port does not: http://h:8000/x@v1 has no login.
_LOGIN = re.compile(r"(?<=://)(?:[^/\s]*|[^/\s:@]*:(?!\d*/)[^\s@]*)@")
_SECRET = re.compile(
    r"(?<=[?&])([\w.-]*(?:token|key|secret|passw|signature|credential)[\w.-]*=)[^&#\s'\"]+", re.IGNORECASE
)


class CaramelError(Exception):
    """Base of all errors that a user can cause and mend."""


class ConfigError(CaramelError):
    """A key or value in ``params.yaml`` or on the command line is wrong."""


class DataError(CaramelError):
    """An input file is missing, broken or not what it should be."""


class ContractError(DataError):
    """A table does not keep its contract."""


class GateError(CaramelError):
    """A quality gate failed."""


class BackendError(CaramelError):
    """An unknown backend name, or a model that cannot be loaded."""


class ResourceError(CaramelError):
    """The machine ran out of something, or something else holds it."""


def format_items(items: list[str], limit: int = 5) -> str:
    """Return at most ``limit`` of the items, one to a line, and how many more there are."""
    lines = [f"  - {item}" for item in items[:limit]]
    if len(items) > limit:
        lines.append(f"  … and {len(items) - limit} more")
    return "\n".join(lines)


def redact_secrets(text: str) -> str:
    """Return a text without the names, passwords and keys of the addresses in it.

    ``https://ME:SECRET@HOST/x?token=SECRET`` is ``https://HOST/x?token=…``.
    """
    return _SECRET.sub(r"\1…", redact_logins(text))


def redact_logins(text: str) -> str:
    """Return a text without the names and passwords of the addresses in it."""
    return _LOGIN.sub("", text)


def escape_unprintable(text: str) -> str:
    """Return the text with all signs that a terminal would obey, or that cannot be written, as escapes.

    Messages and tables quote data, file names and replies of servers: raw, ``\\x1b[2K`` in them wipes a line.
    """
    return _UNPRINTABLE.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)
