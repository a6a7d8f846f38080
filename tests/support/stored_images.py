"""Images as stages hand them over and write them: in shards, with their index."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.io.image_shards import ShardWriter
from caramel.io.image_store import ImageStore
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table

COLUMNS = ("image_id", "shard", "offset", "length", "sha256", "split")  # of ``sharded``


class Taken:
    """Takes the images of a source: ``files`` by image_id, and ``rows``, what is known of each."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.rows: list[dict[str, Any]] = []

    def __call__(self, image_id: str, data: bytes, path: str, **known: Any) -> None:
        self.files[image_id] = data
        self.rows.append({"image_id": image_id, **known})


def stored(index: Path, rows: Iterable[Mapping[str, Any]]) -> ImageStore:
    """Write images into the shards beside an index, and the index; return them.

    Each row has the ``image_id``, the encoded file ``data``, and ``width``, ``height``, ``source`` and ``split``.
    """
    with ShardWriter(index.with_suffix("")) as shards:
        for row in rows:
            known = {name: value for name, value in row.items() if name not in ("image_id", "data")}
            shards.add_image(row["image_id"], row["data"], f"{row['image_id']}.png", **known)
    write_table(IMAGES, build_frame(IMAGES, shards.build_index()), index)
    return ImageStore(index, read_table(IMAGES, index))


def indexed(names: Iterable[str], **known: Any) -> pd.DataFrame:
    """Return table ``images`` of images that lie in no shard, for what does not open any; files are called different."""
    same = {"shard": "images/00000.parquet", "offset": 4, "length": 1, "width": 48, "height": 48}
    same |= {"source": "test", "split": "test", **known}
    rows = [{"image_id": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), **same} for name in names]
    return build_frame(IMAGES, rows)


def sharded(folder: Path, values: Iterable[bytes]) -> tuple[Path, pd.DataFrame]:
    """Write images i0, i1 … into the shards beside ``images.parquet``; return its path and its rows."""
    with ShardWriter(folder / "images") as shards:
        for n, value in enumerate(values):
            shards.add_image(f"i{n}", value, f"i{n}.png", split="test")
    return folder / "images.parquet", pd.DataFrame(shards.build_index(), columns=list(COLUMNS))


def noise(count: int) -> list[bytes]:
    """Return different files of 32 to 224 bytes."""
    return [hashlib.sha256(str(n).encode()).digest() * (1 + n % 7) for n in range(count)]
