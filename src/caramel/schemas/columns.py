"""Closed sets and columns that several tables share."""

from __future__ import annotations

from caramel.schemas.contracts import TEXT, Column

LAYOUT = ("shard", "offset", "length")  # of ``IMAGES``: where a picture lies, and not what it is
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
    "only_obj",  # of the embedded world: what *add* is meant to test, in as many words
)

COMPOUNDS = ("seen", "unseen")  # CREPE 3.2

SPLIT = Column(TEXT, "part of the data; an image is in exactly one", choices=SPLITS)

SUBTYPE = Column(TEXT, "SugarCrepe subtype", choices=SUBTYPES)

TYPE = Column(TEXT, "SugarCrepe type", choices=TYPES)

COMPOUND = Column(
    TEXT,
    "whether each compound of both captions is in a picture of train, where that is known",
    null=True,
    choices=COMPOUNDS,
)

DRAWN_POSITIVE = Column(TEXT, "the positive, drawn by the same process as the image, where it is", null=True)

TEXTS_HASH = Column(
    TEXT,
    "hash of its texts: captions, query or candidates; instances with other hashes are not the same, whatever their names; "
    "null where the texts are not known",
    null=True,
)

IMAGES_HASH = Column(
    TEXT, "hash of the content of its images; null where none was looked at, or it is not known", null=True
)
