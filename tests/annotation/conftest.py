"""The browser in which the annotation page is driven."""

from __future__ import annotations

from chromium import browser

__all__ = ["browser"]
