"""Cache a model's vectors of distinct images and texts on disk.

    <root>/<hash of identity and code>/identity.json      what determines the vectors
                                          images/*.parquet  key, vector: one file per shard
                                          texts/*.parquet
                                          pairs/*.parquet   of matchers: the vector is one score; of joint encoders

An item is identified by its content (images: bytes and box; texts: UTF-8). Benchmarks that share images
therefore share the vectors too. Vectors computed by other code are never used. A shard's file is checked
before it is used, and an interrupted run computes only what is missing or damaged. Vectors are returned as a
memory map, so main memory holds neither all images nor all embeddings.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from caramel.errors import DataError
from caramel.interfaces.model import Identity
from caramel.interfaces.settings import Executor
from caramel.io.files import load_hashed, remove_damaged, write_atomically
from caramel.io.keys import KEY_BYTES
from caramel.runtime.ray import sharded_map

KEY = pa.binary(KEY_BYTES)
Vectors = npt.NDArray[Any]  # float32 embeddings or float64 scores, (n, d)


class StoredVectors(NamedTuple):
    """Vectors of items, in the requested order."""

    vectors: Vectors  # (n, d), a read-only memory map
    new: int  # number of vectors that were computed now


class EmbeddingCache:
    """The vectors of one model.

    Args:
        root: folder of all models.
        identity: identity of the model; see ``interfaces.model``.
        code: hash of the code that computes the vectors, see ``code_deps.code_version``.
    """

    def __init__(self, root: str | Path, identity: Identity, code: str) -> None:
        whole = {**identity, "code": code}
        text = json.dumps(whole, sort_keys=True, indent=2, default=str) + "\n"
        self.folder = Path(os.path.realpath(root)) / hashlib.sha256(text.encode()).hexdigest()[:32]
        path = self.folder / "identity.json"
        if not path.is_file() or path.read_bytes() != text.encode():
            write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def compute_vectors(
        self,
        item_type: str,
        keys: Sequence[bytes],
        work: Callable[..., pa.Table],
        shards: Callable[[list[int]], list[Any]],
        *,
        bring: Callable[[Any], Any] = lambda shard: shard,
        settings: Mapping[str, Any],
        executor: Executor,
        title: str,
        gpus: float = 0.0,
    ) -> StoredVectors:
        """Return the vectors of distinct items; missing ones are computed first.

        Args:
            item_type: images, texts or pairs.
            keys: key of each item, ``KEY_BYTES`` long, all different.
            work: top-level function ``work(shard, **settings)`` -> table of ``key`` and ``vector``.
            shards: indices of the items to compute -> JSON-like shards of them.
            bring, settings: as in ``map_shards``.
            executor: ray or inline.
            title: title of the progress bar.
            gpus: number of GPUs that one task needs.

        Raises:
            DataError: two files have vectors of different dimensions.
        """
        folder = self.folder / item_type
        wanted = pa.array(keys, KEY)
        files = [*load_hashed(folder, ".parquet").values()]
        parts = [_read_column(path, "key") for path in files]
        stored_keys = pa.concat_arrays(parts) if parts else pa.array([], KEY)
        missing = (
            pc.is_null(pc.index_in(wanted, value_set=stored_keys)) if len(stored_keys) else [True] * len(keys)
        )
        todo = np.flatnonzero(np.asarray(missing)).tolist()
        if todo:
            files += sharded_map.map_shards(
                work,
                shards(todo),
                settings=settings,
                folder=folder,
                executor=executor,
                title=title,
                gpus=gpus,
                bring=bring,
            )
        return StoredVectors(self._gather_vectors(files, wanted), len(todo))

    def _gather_vectors(self, files: Sequence[Path], wanted: pa.Array) -> Vectors:
        """Return the vectors of the wanted keys as a memory map of a file that is already unlinked."""
        result: Vectors | None = None
        filled = np.zeros(len(wanted), bool)
        for path in files:
            indices = pc.index_in(wanted, value_set=_read_column(path, "key"))
            here = np.asarray(indices.is_valid()) & ~filled
            if not here.any():
                continue
            rows = _flatten_lists(_read_column(path, "vector"))
            if result is None:
                result = _create_scratch_map((len(wanted), rows.shape[1]), rows.dtype, path.parent)
            elif result.shape[1] != rows.shape[1]:
                raise DataError(
                    f"{str(path)!r} has vectors of {rows.shape[1]} dimensions, other files of "
                    f"{result.shape[1]}. Remove the folder {str(self.folder)!r}."
                )
            result[here] = rows[np.asarray(indices.filter(pa.array(here)), np.int64)]
            filled |= here
        assert result is not None
        assert filled.all()
        result.flags.writeable = False
        return result


def check_stores(root: str | Path, codes: Collection[str] = ("",)) -> None:
    """Remove damaged files from the caches of some code, else of all.

    The files are printed, because a worker's output is not visible.
    """
    for path in sorted(Path(root).glob("*/identity.json")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if any(code in text for code in codes):
            for item_type in ("images", "pairs", "texts"):
                remove_damaged(path.parent / item_type)


def build_vector_table(keys: Sequence[bytes], vectors: Vectors) -> pa.Table:
    """Return the table that ``work`` must return for one shard."""
    flat = pa.array(vectors.reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    return pa.table({"key": pa.array(keys, KEY), "vector": column})


def _create_scratch_map(shape: tuple[int, int], dtype: np.dtype[Any], folder: Path) -> Vectors:
    """Return a memory map of an unlinked file, which disappears with its last user.

    Its space is allocated at once: on a full volume, a write to a memory map of a sparse file would end the
    process.

    Raises:
        OSError: there is not enough space.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        if size := math.prod(shape) * dtype.itemsize:
            os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, dtype, "w+", shape=shape)


def _flatten_lists(array: pa.FixedSizeListArray) -> Vectors:
    """Return fixed-size lists as (n, d)."""
    values: Vectors = array.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(array), array.type.list_size)


def _read_column(path: Path, column: Literal["key", "vector"]) -> pa.Array:
    """Return one column of a file."""
    return pq.read_table(path, columns=[column]).column(column).combine_chunks()
