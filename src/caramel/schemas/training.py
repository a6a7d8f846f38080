"""The table of training rows."""

from __future__ import annotations

from caramel.schemas.columns import SPLIT, SUBTYPES
from caramel.schemas.contracts import TEXT, TEXTS, Column, Table

TRAINING = Table(
    "training",
    ("pair_id",),
    {
        "pair_id": Column(TEXT, "pair to train on"),
        "image_id": Column(TEXT, "positive image"),
        "caption": Column(TEXT, "positive caption"),
        "caption2": Column(TEXT, "paraphrase, a second true caption", null=True),
        # Lists of equal length; negatives with an image come first.
        "negative_captions": Column(TEXTS, "hard negatives, each false of the image"),
        "negative_image_ids": Column(TEXTS, "image for which each is true, if there is one", null=True),
        "subtypes": Column(TEXTS, "subtype of each negative", choices=SUBTYPES),
        "split": SPLIT,
    },
)
