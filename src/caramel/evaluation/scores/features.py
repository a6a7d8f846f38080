"""Compute a CLIP's vectors before normalisation; each distinct image and text is encoded once and stored."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from caramel.io.files import compute_file_hash
from caramel.io.keys import compute_image_key, compute_text_key
from caramel.models.embedding_cache import EmbeddingCache, Vectors, build_vector_table
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.models.open_clip.encoder import ClipEncoder
from caramel.runtime.code_deps import compute_code_version

PER_SHARD = 1024


def encode_projected(
    base: str,
    items: Sequence[str],
    load_image: Callable[[str], bytes] | None,
    *,
    device: str,
    batch_size: int,
    store: str,
) -> Vectors:
    """Return the projected vectors (n, d) of images or texts, not normalised.

    Args:
        base: checkpoint folder.
        items: distinct names of images, or distinct texts.
        load_image: returns the encoded file of a name; None: the items are texts.
        device: cpu, cuda or cuda:N.
        batch_size: items per forward pass.
        store: folder of the vector store.
    """
    content = compute_file_hash(base)
    identity = _open_encoder(base, content, device).identity
    vector_store = EmbeddingCache(store, identity, compute_code_version(__name__))
    keys = [
        compute_text_key(item) if load_image is None else compute_image_key(load_image(item), None)
        for item in items
    ]
    first = dict(zip(keys, items, strict=True))
    distinct = list(first)

    def load_items(shard: list[str]) -> list[tuple[str, Any]]:
        named = [(key, first[bytes.fromhex(key)]) for key in shard]
        return named if load_image is None else [(key, load_image(item)) for key, item in named]

    stored_vectors = vector_store.compute_vectors(
        "texts" if load_image is None else "images",
        distinct,
        encode_texts if load_image is None else encode_images,
        lambda todo: [
            [distinct[i].hex() for i in todo[s : s + PER_SHARD]] for s in range(0, len(todo), PER_SHARD)
        ],
        bring=load_items,
        settings={"base": base, "content": content, "device": device, "batch_size": batch_size},
        executor="inline",
        title=f"{base}: {len(items)} {'texts' if load_image is None else 'images'}",
    ).vectors
    positions = {key: i for i, key in enumerate(distinct)}
    vectors: Vectors = stored_vectors[[positions[key] for key in keys]]
    return vectors


@functools.lru_cache(1)
def _open_encoder(base: str, content: str, device: str) -> ClipEncoder:
    """Return a checkpoint's encoder; it is loaded once while the folder's hash is ``content``."""
    return ClipEncoder(load_checkpoint(base, device), device, "fp32", "", normalised=False)


def encode_images(
    shard: list[tuple[str, bytes]], *, base: str, content: str, device: str, batch_size: int
) -> pa.Table:
    """Return keys and vectors of images; an item is (key, encoded file)."""
    keys, files = zip(*shard, strict=True)
    return _build_table(keys, _open_encoder(base, content, device).encode_images(files, batch_size))


def encode_texts(
    shard: list[tuple[str, str]], *, base: str, content: str, device: str, batch_size: int
) -> pa.Table:
    """Return keys and vectors of texts; an item is (key, text)."""
    keys, texts = zip(*shard, strict=True)
    return _build_table(keys, _open_encoder(base, content, device).encode_texts(texts, batch_size))


def _build_table(keys: Sequence[str], vectors: Vectors) -> pa.Table:
    return build_vector_table([bytes.fromhex(key) for key in keys], vectors)
