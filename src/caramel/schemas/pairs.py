"""The table of images with true captions."""

from __future__ import annotations

from caramel.schemas.columns import SPLIT
from caramel.schemas.contracts import TEXT, Column, Table

PAIRS = Table(
    "pairs",
    ("pair_id",),
    {
        "pair_id": Column(TEXT, "name of the pair"),
        "image_id": Column(TEXT, "image that the caption describes (file name if it is not available)"),
        "caption": Column(TEXT, "the positive, P1"),
        "scene": Column(TEXT, "exact scene graph as JSON, if known", null=True),
        "split": SPLIT,
        "source": Column(TEXT, "source of the pair"),
    },
)
