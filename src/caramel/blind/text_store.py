"""What a model made of each distinct text, kept on disk, so that an interrupted run goes on.

    work/scorers/<fingerprint of the model>/*.parquet     columns text and vector, one file per shard

The fingerprint covers the model's weights, settings and tokenizer, and the code of caramel that makes them: what was made
by other code is never taken. A shard's file is checked before it is used, and made again where it is broken.
Texts of one shard are of like length, so that batches hold little padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from caramel.models.protocols import Embeddings, Identity
from caramel.running.parallel import fingerprint, sharded_map
from caramel.storage.files import check, kept

ROOT = Path("work/scorers")
SHARD = 4096  # texts; what an interruption loses at most


def text_vectors(
    texts: Sequence[str],
    work: Callable[..., pa.Table],
    *,
    settings: Mapping[str, Any],
    identity: Identity,
    title: str,
) -> Embeddings:
    """Return a vector for each text (n, d), float32; those that are not there yet are made first.

    Args:
        texts: n distinct texts, at least one.
        work: top-level function ``work(texts, **settings)`` that returns a ``vector_table``.
        settings: JSON-like keyword arguments of ``work``.
        identity: all that determines the vectors.
        title: of the progress bar.
    """
    folder = ROOT / fingerprint(work.__module__, dict(identity))
    files = [*kept(folder, ".parquet").values()]
    known = set().union(*(_read(path)["text"].to_pylist() for path in files))
    todo = sorted(set(texts) - known, key=lambda text: (len(text), text))
    if todo:
        shards = [todo[start : start + SHARD] for start in range(0, len(todo), SHARD)]
        files += sharded_map(work, shards, settings=settings, folder=folder, executor="inline", title=title)
    table = pa.concat_tables([_read(path) for path in files])
    vectors = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    rows: Embeddings = vectors.reshape(len(table), -1)
    places = pc.index_in(pa.array(texts, pa.string()), value_set=table["text"].combine_chunks())
    return rows[np.asarray(places, np.int64)]


def check_text_store() -> None:
    """Remove what is broken of all that is kept, and say so: nobody sees what a worker says."""
    for folder in sorted(ROOT.glob("*")):
        check(folder)


def vector_table(texts: Sequence[str], vectors: Embeddings) -> pa.Table:
    """Return the table that ``work`` gives for one shard: its texts and their vectors (n, d)."""
    flat = pa.array(vectors.reshape(-1), pa.float32())
    column = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    return pa.table({"text": pa.array(texts, pa.string()), "vector": column})


def _read(path: Path) -> pa.Table:
    return pq.read_table(path, columns=["text", "vector"])
