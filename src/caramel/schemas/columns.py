"""Closed sets of values, and columns that several tables share."""

from __future__ import annotations

from caramel.schemas.contracts import TEXT, Column

LAYOUT = ("shard", "offset", "length")  # columns of ``IMAGES``: location of an image, not its identity
SPLITS = ("train", "val", "test")

TYPES = ("replace", "swap", "add", "only")

SUBTYPES = (
    "replace_obj",
    "replace_att",
    "replace_rel",
    "swap_obj",
    "swap_att",
    "add_obj",
    "add_att",
    "only_obj",  # of the embedded world: the property that *add* should test, with an equal number of words
)

COMPOUNDS = ("seen", "unseen")  # CREPE 3.2

SPLIT = Column(TEXT, "split of the data; an image is in exactly one", choices=SPLITS)

SUBTYPE = Column(TEXT, "SugarCrepe subtype", choices=SUBTYPES)

TYPE = Column(TEXT, "SugarCrepe type", choices=TYPES)

COMPOUND = Column(
    TEXT,
    "whether each compound of both captions occurs in an image of train, if that is known",
    null=True,
    choices=COMPOUNDS,
)

DRAWN_POSITIVE = Column(
    TEXT, "the positive image by the same process as this one, if there is any", null=True
)

TEXTS_HASH = Column(
    TEXT,
    "hash of its texts: captions, query or candidates; instances with different hashes differ, whatever their names; "
    "null if the texts are unknown",
    null=True,
)

IMAGES_HASH = Column(
    TEXT, "hash of the content of its images; null if none was read, or it is unknown", null=True
)
