"""The table of blind scores: scores of captions without the image."""

from __future__ import annotations

from caramel.schemas.contracts import FLOAT, TEXT, UNIT, Column, Table

SCORES = Table(
    "scores",
    ("negative_id", "scorer"),
    {
        "negative_id": Column(TEXT, "negative that is scored against its positive"),
        "scorer": Column(TEXT, "blind scorer"),
        "positive_score": Column(FLOAT, "score of the positive, in [0, 1]", range=UNIT),
        "negative_score": Column(FLOAT, "score of the negative, in [0, 1]", range=UNIT),
    },
)
