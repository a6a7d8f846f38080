"""The table of what was left out, and why."""

from __future__ import annotations

from caramel.schemas.contracts import TEXT, Column, Table

REJECTS = Table(
    "rejects",
    ("id", "stage"),
    {
        "id": Column(TEXT, "row that was dropped, named as in its own table"),
        "stage": Column(TEXT, "stage that dropped it"),
        "reason": Column(TEXT, "why, from a small set of reasons per stage"),
        "text": Column(TEXT, "the text in question", null=True),
    },
)
