"""The table of images: their locations and properties."""

from __future__ import annotations

from caramel.schemas.columns import SPLIT
from caramel.schemas.contracts import COUNT, FROM_ONE, INT, TEXT, Column, Table

IMAGES = Table(
    "images",
    ("image_id",),
    {
        "image_id": Column(TEXT, "name of the image"),
        "shard": Column(TEXT, "Parquet file that holds it, relative to the folder of this table"),
        "offset": Column(INT, "byte of the shard at which its encoded file begins", range=COUNT),
        "length": Column(INT, "size of its encoded file in bytes", range=COUNT),
        "sha256": Column(TEXT, "SHA-256 of its encoded file, in hexadecimal digits"),
        "width": Column(INT, "pixels", range=FROM_ONE),
        "height": Column(INT, "pixels", range=FROM_ONE),
        "source": Column(TEXT, "source of the image"),
        "split": SPLIT,
    },
)
