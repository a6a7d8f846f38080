"""Write shards of images: plain Parquet, in which each encoded file is one contiguous block of bytes.

Other software can read the shards. A shard has the columns ``image_id`` and ``image``, a struct of bytes and
path, which the library ``datasets`` loads as images. Nothing in it is compressed or dictionary-encoded: the
values of a column follow each other, each after its length in four bytes (PLAIN, in Apache Parquet's
Encodings.md). ``image_store`` reads them by their offsets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from caramel.io.files import create_empty_folder, write_atomically
from caramel.io.image_store import PREFIX

SHARD_BYTES = 64 << 20  # bytes of encoded files at which a shard is full
GROUP = 256  # images in a row group

_FEATURES = {"image_id": {"dtype": "string", "_type": "Value"}, "image": {"_type": "Image"}}  # for `datasets`
_SCHEMA = pa.schema(
    [("image_id", pa.string()), ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())]))],
    metadata={"huggingface": json.dumps({"info": {"features": _FEATURES}})},
)
_BYTES = "image.bytes"  # Parquet's name of the column of a shard that holds the encoded files


class ShardWriter:
    """Writes images one at a time into the shards of a folder. At most one shard is in memory.

    It is a context manager and writes the remaining images on exit. At least one shard is written, which may
    be empty. Equal images in equal order give equal bytes. Earlier contents of the folder are removed.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._columns: dict[str, list[Any]] = {}  # of the index, without ``offset``
        self._offsets: list[int] = []
        self._waiting: list[tuple[str, bytes, str]] = []
        self._bytes = self._shards = 0

    def __enter__(self) -> Self:
        create_empty_folder(self._folder)
        return self

    def __exit__(self, error_type: type[BaseException] | None, *unused: object) -> None:
        if error_type is None and (self._waiting or not self._shards):
            self._write_shard()

    def add_image(self, image_id: str, data: bytes, path: str, **known: object) -> None:
        """Add the encoded file of an image.

        Args:
            image_id: name of the image.
            data: the encoded file.
            path: file name of the image outside the shard.
            known: further columns of its row in the index; every image must have the same columns.

        Raises:
            ResourceError: the volume is full or read-only.
        """
        row = {
            "image_id": image_id,
            "shard": f"{self._folder.name}/{_format_shard_name(self._shards)}",
            "length": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            **known,
        }
        for name, value in row.items():
            self._columns.setdefault(name, []).append(value)
        self._waiting.append((image_id, data, path))
        self._bytes += len(data)
        if self._bytes >= SHARD_BYTES:
            self._write_shard()

    def build_index(self) -> pd.DataFrame:
        """Return the rows of all written images in order, for an index beside the folder."""
        return pd.DataFrame({**self._columns, "offset": self._offsets})

    def _write_shard(self) -> None:
        """Write the waiting images as one shard, and record the offset of each file in it."""

        def write_parquet(temporary: Path) -> None:
            with pq.ParquetWriter(
                temporary, _SCHEMA, compression="none", use_dictionary=False, write_statistics=False
            ) as writer:
                for start in range(0, len(self._waiting), GROUP):
                    writer.write_table(_build_table(self._waiting[start : start + GROUP]))
            self._offsets += _find_image_offsets(temporary, [data for _, data, _ in self._waiting])

        write_atomically(self._folder / _format_shard_name(self._shards), write_parquet)
        self._waiting, self._bytes = [], 0
        self._shards += 1


def _format_shard_name(number: int) -> str:
    return f"{number:05}.parquet"


def _build_table(rows: Sequence[tuple[str, bytes, str]]) -> pa.Table:
    cells = [{"bytes": data, "path": path} for _, data, path in rows]
    return pa.table([[name for name, _, _ in rows], cells], schema=_SCHEMA)


def _find_image_offsets(shard: Path, values: Sequence[bytes]) -> list[int]:
    """Return the byte offset of each encoded file in a shard, in row order."""
    offsets: list[int] = []
    metadata = pq.read_metadata(shard)
    with shard.open("rb") as stream:
        for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
            columns = (group.column(number) for number in range(group.num_columns))
            column = next(column for column in columns if column.path_in_schema == _BYTES)
            stream.seek(column.data_page_offset)
            chunk = stream.read(column.total_compressed_size)
            part = values[len(offsets) : len(offsets) + group.num_rows]
            offsets += [column.data_page_offset + position for position in find_value_offsets(chunk, part)]
    return offsets


def find_value_offsets(chunk: bytes, values: Sequence[bytes]) -> list[int]:
    """Return the offset of each value in a column chunk of PLAIN values, in order between page headers.

    Each value is searched from the end of the previous one. An earlier occurrence of the same bytes is also
    correct: it is equal to the value and ends no later, so all further values still follow it.
    """
    offsets, at = [], 0
    for value in values:
        head = len(value).to_bytes(PREFIX, "little") + value[:64]
        at = chunk.find(head, at)
        while at >= 0 and not chunk.startswith(value, at + PREFIX):
            at = chunk.find(head, at + 1)
        assert at >= 0, "the shard was not written as PLAIN values"
        at += PREFIX
        offsets.append(at)
        at += len(value)
    return offsets
