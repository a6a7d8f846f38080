"""Compute vectors of texts through the embedding cache, for the models of blind scorers.

Texts of one shard have similar lengths, so that batches hold little padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from caramel.interfaces.model import Identity
from caramel.io.keys import compute_text_key
from caramel.models.embedding_cache import EmbeddingCache, Vectors
from caramel.runtime.code_deps import compute_code_version
from caramel.runtime.paths import SCORED

SHARD = 4096  # texts per shard; an interruption loses at most one shard


def compute_text_vectors(
    texts: Sequence[str],
    work: Callable[..., pa.Table],
    *,
    settings: Mapping[str, Any],
    identity: Identity,
    title: str,
) -> Vectors:
    """Return a vector for each text (n, d), read-only; vectors that are not cached are computed first.

    Args:
        texts: n distinct texts, at least one.
        work: top-level function ``work(texts, **settings)`` that returns
            ``models.embedding_cache.build_vector_table`` keyed by ``text_key``.
        settings: JSON-like keyword arguments of ``work``.
        identity: everything that determines the vectors, except the code.
        title: title of the progress bar.
    """

    def split_shards(todo: list[int]) -> list[list[str]]:
        ordered = sorted((texts[i] for i in todo), key=lambda text: (len(text), text))
        return [ordered[start : start + SHARD] for start in range(0, len(ordered), SHARD)]

    store = EmbeddingCache(SCORED, identity, compute_code_version(work.__module__))
    keys = [compute_text_key(text) for text in texts]
    return store.compute_vectors(
        "texts", keys, work, split_shards, settings=settings, executor="inline", title=title
    ).vectors
