"""The tables of hard negatives and of paraphrases."""

from __future__ import annotations

from caramel.schemas.columns import COMPOUND, SUBTYPE, TYPE
from caramel.schemas.contracts import FROM_ONE, INT, TEXT, Column, Table

NEGATIVES = Table(
    "negatives",
    ("negative_id",),
    {
        "negative_id": Column(TEXT, "pair_id:subtype"),
        "pair_id": Column(TEXT, "pair of the positive caption"),
        "type": TYPE,
        "subtype": SUBTYPE,
        "negative_caption": Column(TEXT, "the hard negative, N: false of the pair's image"),
        "generator": Column(TEXT, "backend that wrote it"),
        "seed": Column(INT, "seed of the draw"),
        "attempt": Column(INT, "number of draws needed, from 1", range=FROM_ONE),
        "compounds": COMPOUND,
    },
)

PARAPHRASES = Table(
    "paraphrases",
    ("pair_id",),
    {
        "pair_id": Column(TEXT, "pair that it paraphrases"),
        "caption2": Column(TEXT, "a second true caption, P2"),
        "generator": Column(TEXT, "backend that wrote it"),
        "attempts": Column(INT, "number of draws needed, from 1", range=FROM_ONE),
    },
)
