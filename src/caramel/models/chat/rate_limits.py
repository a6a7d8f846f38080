"""Read from a server's responses when it accepts the next request, and hold all requests until then."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LIMITS = ("requests", "tokens")  # servers state in headers how many are left, and when there are more
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass
class Pace:
    """The time from which on requests may be sent, according to the server's last response."""

    until: float = 0.0  # by ``time.monotonic``

    def hold_requests(self, seconds: float) -> None:
        """Delay all requests by at least this many seconds; NaN has no effect."""
        if seconds > 0:
            self.until = max(self.until, time.monotonic() + seconds)

    def get_remaining_seconds(self) -> float:
        """Return the remaining seconds to wait, at least 0."""
        return max(0.0, self.until - time.monotonic())


def parse_retry_after(value: str) -> float:
    """Return the seconds that a header Retry-After asks for: a number or a date; 0 for anything else."""
    try:
        return float(value)
    except ValueError:
        pass
    try:
        return (parsedate_to_datetime(value).astimezone(UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return 0.0


def get_reset_seconds(headers: Mapping[str, str]) -> float:
    """Return the seconds until the server accepts more requests if its headers say that none are left; else 0."""
    waits = [
        _parse_duration(headers.get(f"x-ratelimit-reset-{what}", ""))
        for what in LIMITS
        if headers.get(f"x-ratelimit-remaining-{what}", "").strip() == "0"
    ]
    return max(waits, default=0.0)


def _parse_duration(value: str) -> float:
    """Return the seconds of a duration such as ``6m0s``, ``20ms`` or ``1.5``; 0 for anything else."""
    try:
        return float(value)
    except ValueError:
        return sum(float(number) * _SECONDS[unit] for number, unit in _SPAN.findall(value))
