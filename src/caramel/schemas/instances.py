"""The table of benchmark instances."""

from __future__ import annotations

from caramel.schemas.columns import COMPOUND, SPLIT, SUBTYPE, TYPE
from caramel.schemas.contracts import TEXT, Column, Table

INSTANCES = Table(
    "instances",
    ("instance_id",),
    {
        "instance_id": Column(TEXT, "the negative_id"),
        "image_id": Column(TEXT, "positive image, I0"),
        "caption": Column(TEXT, "positive caption, C0"),
        "caption2": Column(TEXT, "paraphrase, P2", null=True),
        "negative_caption": Column(TEXT, "hard negative, C1"),
        "negative_image_id": Column(TEXT, "image for which C1 is true, I1", null=True),
        "type": TYPE,
        "subtype": SUBTYPE,
        "split": SPLIT,
        "compounds": COMPOUND,
    },
)
