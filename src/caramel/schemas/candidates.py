"""The tables of generated images: all candidates, and the chosen ones."""

from __future__ import annotations

from caramel.schemas.columns import DRAWN_POSITIVE
from caramel.schemas.contracts import BOOL, COUNT, FLOAT, INT, TEXT, UNIT, Column, Table

CANDIDATES = Table(
    "candidates",
    ("negative_id", "candidate"),
    {
        "negative_id": Column(TEXT, "negative whose caption was drawn"),
        "candidate": Column(INT, "number of the candidate, from 0", range=COUNT),
        "image_id": Column(TEXT, "its image in the candidates' images table"),
        "seed": Column(INT, "random seed of the image"),
        "generator": Column(TEXT, "pipeline and settings"),
        "prompt": Column(TEXT, "caption that was drawn"),
        "positive_image_id": DRAWN_POSITIVE,
        "scene": Column(TEXT, "exact scene graph of the image, as JSON, if one was planned", null=True),
    },
)

CHOICES = Table(
    "choices",
    ("negative_id", "candidate"),
    {
        "negative_id": Column(TEXT, "negative whose caption was drawn"),
        "candidate": Column(INT, "number of the candidate, from 0", range=COUNT),
        "image_id": Column(TEXT, "its image in the candidates' images table"),
        "faithful": Column(FLOAT, "deciding judge: match with the negative caption, in [0, 1]", range=UNIT),
        "ambiguous": Column(BOOL, "whether the positive caption is also true of this image"),
        "judge_negative": Column(FLOAT, "second judge: score of the negative caption", null=True),
        "judge_positive": Column(FLOAT, "second judge: score of the positive caption", null=True),
        "positive_image_id": DRAWN_POSITIVE,
        "chosen_by": Column(TEXT, "judge that chose it; null if it was not chosen", null=True),
    },
)
