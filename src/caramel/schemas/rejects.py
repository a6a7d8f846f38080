"""The table of rejected rows and the reasons."""

from __future__ import annotations

from caramel.schemas.contracts import TEXT, Column, Table

REJECTS = Table(
    "rejects",
    ("id", "stage"),
    {
        "id": Column(TEXT, "rejected row, by its name in its own table"),
        "stage": Column(TEXT, "stage that rejected it"),
        "reason": Column(TEXT, "reason, from a small set per stage"),
        "text": Column(TEXT, "the rejected text", null=True),
    },
)
