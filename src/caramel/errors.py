"""The exception tree: all errors that a user can cause.

    CaramelError
    ├── ConfigError      params.yaml or a command-line value is wrong
    ├── DataError        an input file is missing, broken or of the wrong form
    ├── GateError        a quality gate failed: the data must not be used
    ├── BackendError     an unknown backend, or a model that cannot be loaded
    └── ResourceError    disk full, a lock held, a worker that keeps dying
        └── TrialError   trials failed on Ray, each with an error of its own

A message says what is wrong, the value, where it is, and what to do. The command line and
the stages print the message without a traceback and exit with code 1. What they print passes
``escape_unprintable``.
"""

import re

# Characters that control a terminal (C0 and C1 except tab and newline), turn the text direction, or are not
# text.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# A password may contain a slash, but a port may not: http://h:8000/x@v1 has no login.
_LOGIN = re.compile(r"(?<=://)(?:[^/\s]*|[^/\s:@]*:(?!\d*/)[^\s@]*)@")
_SECRET = re.compile(
    r"(?<=[?&])([\w.-]*(?:token|key|secret|passw|signature|credential)[\w.-]*=)[^&#\s'\"]+", re.IGNORECASE
)


class CaramelError(Exception):
    """Base of all errors that a user can cause and fix."""


class ConfigError(CaramelError):
    """A key or value in ``params.yaml`` or on the command line is wrong."""


class DataError(CaramelError):
    """An input file is missing, broken or of the wrong form."""


class ContractError(DataError):
    """A table does not keep its contract."""


class GateError(CaramelError):
    """A quality gate failed."""


class BackendError(CaramelError):
    """An unknown backend name, or a model that cannot be loaded."""


class ResourceError(CaramelError):
    """The machine ran out of a resource, or another process holds it."""


class ModelMemoryError(ResourceError):
    """A model, or a batch of it, does not fit into memory; another model may."""


class TrialError(ResourceError):
    """Trials failed on Ray; the message holds the error of the first, which may be of any kind."""


def format_items(items: list[str], limit: int = 5) -> str:
    """Return at most ``limit`` of the items, one per line, and the number of further ones."""
    lines = [f"  - {item}" for item in items[:limit]]
    if len(items) > limit:
        lines.append(f"  … and {len(items) - limit} more")
    return "\n".join(lines)


def count_of(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural with ``s`` unless the number is 1: ``1 file``, ``1,024 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def redact_secrets(text: str) -> str:
    """Return a text with user names, passwords and keys removed from its URLs.

    ``https://ME:SECRET@HOST/x?token=SECRET`` is ``https://HOST/x?token=…``.
    """
    return _SECRET.sub(r"\1…", redact_logins(text))


def redact_logins(text: str) -> str:
    """Return a text with user names and passwords removed from its URLs."""
    return _LOGIN.sub("", text)


def escape_unprintable(text: str) -> str:
    """Return the text with characters that control a terminal, or cannot be written, as escapes.

    Messages and tables quote data, file names and replies of servers. A raw ``\\x1b[2K`` in them would erase
    a line.
    """
    return _UNPRINTABLE.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)


def format_error(error: CaramelError) -> str:
    """Return what a stage or another program of ``make repro`` says before it ends: one message, without secrets."""
    return escape_unprintable(redact_secrets(f"\nError: {error}"))
