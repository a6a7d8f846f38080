"""The browser in which the page of `caramel explore` is driven."""

from __future__ import annotations

from chromium import browser

__all__ = ["browser"]
