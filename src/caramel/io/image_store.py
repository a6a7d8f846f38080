"""Read images from shards by an index, one at a time, so that they are never all in memory.

In a shard (``image_shards``) each encoded file is one contiguous block after its length, and is read by its
offset. The index, table ``images`` of ``schemas``, holds the offsets.

Shards are beside the index of the stage that creates the images: ``images/00000.parquet`` beside
``images.parquet``. The index of a stage that drops or joins images refers to the same shards; see
``rewrite_shard_paths``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import numpy as np
import pandas as pd

from caramel.errors import DataError, format_items
from caramel.io.validators import format_value, is_inside_folder

PREFIX = 4  # bytes before each value: its length, little-endian
MOST_OPEN = 128  # shards that are open at a time; most systems allow a process 1,024 files
CURE = "Run `dvc checkout` to restore the shard, or `dvc repro` to create it again."

Key = TypeVar("Key")


class ImageStore(Mapping[str, bytes]):
    """A mapping from image_id to the encoded file of each image of an index, read from its shard on access.

    It can be used in threads and after a fork, and can be pickled: the shards are then opened again.
    """

    def __init__(self, index: str | Path, rows: pd.DataFrame) -> None:
        """Store the locations of the images. No shard is opened yet.

        Args:
            index: path of the table ``images``; shard paths are relative to its folder.
            rows: the table.

        Raises:
            DataError: a shard path leads outside the index's folder and the folder around it.
        """
        self._index = str(index)
        shard, names = pd.factorize(rows["shard"])
        if outside := [format_value(name) for name in names if not _is_near(name)]:
            raise DataError(
                f"{self._index!r} names {len(outside)} shards that are not Parquet files below its folder or the folder "
                f"around it. They are not read:\n{format_items(outside)}\nRun `dvc repro` to create it again."
            )
        self._shards = _list_shard_paths(index, names)
        self._number = {name: number for number, name in enumerate(rows["image_id"])}
        self._shard = shard.astype(np.int32)
        self._offset, self._length = (rows[name].to_numpy(np.int64) for name in ("offset", "length"))
        self._sha256 = rows["sha256"].array
        self._open: dict[int, _Shard] = {}

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[str]:
        return iter(self._number)

    def __contains__(self, image_id: object) -> bool:
        return image_id in self._number

    def __getitem__(self, image_id: str) -> bytes:
        """Return the encoded file of an image.

        Raises:
            KeyError: the index does not have it.
            DataError: its shard is missing, shorter than the index says, or holds other content at the
                offset.
        """
        number = self._number[image_id]
        offset, length = int(self._offset[number]), int(self._length[number])
        try:
            shard_number = int(self._shard[number])
            shard = self._open.get(shard_number) or self._open_shard(shard_number)
            if not PREFIX <= offset <= offset + length <= shard.size:
                raise self._build_error(
                    image_id, f"has {shard.size} bytes, too few for byte {offset} + {length}"
                )
            data = os.pread(shard.descriptor, PREFIX + length, offset - PREFIX)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            problem = "is missing" if missing else f"cannot be read: {error.strerror}"
            raise self._build_error(image_id, problem) from error
        if len(data) < PREFIX + length or int.from_bytes(data[:PREFIX], "little") != length:
            raise self._build_error(image_id, f"does not hold it at byte {offset}, as the index says")
        return data[PREFIX:]

    def read_verified(self, image_id: str) -> bytes:
        """Return the encoded file of an image after checking its SHA-256; errors as in ``[image_id]``.

        Raises:
            DataError: the file is a different one.
        """
        data = self[image_id]
        if hashlib.sha256(data).hexdigest() != self._sha256[self._number[image_id]]:
            raise self._build_error(
                image_id, "holds another file at its offset: the SHA-256 differs from the index"
            )
        return data

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}

    def _open_shard(self, shard_number: int) -> _Shard:
        """Open a shard, and drop the oldest open ones.

        There is no lock, because a fork could leave it locked.

        Two threads may open the same shard. The one that is dropped is closed when nobody reads from it any
        more.
        """
        shard = _Shard(os.open(self._shards[shard_number], os.O_RDONLY))
        for old in list(self._open)[: -(MOST_OPEN - 1)]:
            self._open.pop(old, None)
        self._open[shard_number] = shard
        return shard

    def _build_error(self, image_id: str, what: str) -> DataError:
        shard = self._shards[self._shard[self._number[image_id]]]
        return DataError(f"Image {format_value(image_id)} of {self._index!r}: shard {shard!r} {what}. {CURE}")


class _Shard:
    """An open shard, closed when nothing refers to it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.descriptor)


def _is_near(shard: str) -> bool:
    """Return whether a relative path is a Parquet file below a folder, or below the folder around it."""
    inner = shard.removeprefix("../")
    return is_inside_folder(inner) and inner.endswith(".parquet")


def rewrite_shard_paths(rows: pd.DataFrame, of: str | Path, by: str | Path) -> pd.DataFrame:
    """Return rows of an index in folder ``of`` for an index in folder ``by`` that uses the same shards."""
    moved = {shard: Path(os.path.relpath(Path(of, shard), by)).as_posix() for shard in rows["shard"].unique()}
    return rows.assign(shard=rows["shard"].map(moved))


def list_shards(index: str | Path, rows: pd.DataFrame) -> list[str]:
    """Return the paths of the shards that an index refers to."""
    return _list_shard_paths(index, rows["shard"].unique())


def _list_shard_paths(index: str | Path, names: Iterable[str]) -> list[str]:
    folder = Path(index).absolute().parent
    return [os.path.normpath(folder / name) for name in names]


def is_shard(path: Path) -> bool:
    """Return whether a Parquet file is a shard, not a table: its folder has an index of the same name beside it."""
    return path.parent.with_name(f"{path.parent.name}.parquet").is_file()


class LazySequence(Sequence[bytes], Generic[Key]):
    """Encoded files in a given order, each read on access. A slice reads none."""

    def __init__(self, read: Callable[[Key], bytes], keys: Sequence[Key]) -> None:
        self._read, self._keys = read, keys

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> LazySequence[Key]: ...
    def __getitem__(self, index: int | slice) -> bytes | LazySequence[Key]:
        if isinstance(index, slice):
            return LazySequence(self._read, self._keys[index])
        return self._read(self._keys[index])
