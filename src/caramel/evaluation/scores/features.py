"""Compute a CLIP's vectors before normalisation; each distinct image and text is encoded once and stored."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from caramel.io.files import compute_file_hash
from caramel.io.keys import compute_image_key, compute_text_key
from caramel.models.embedding_cache import EmbeddingCache, Vectors, build_vector_table
from caramel.models.open_clip.checkpoints import load_checkpoint
from caramel.models.open_clip.encoder import ClipEncoder, decode_images, normalise_pixels, tokenize_texts
from caramel.runtime.code_deps import compute_code_version

if TYPE_CHECKING:
    from caramel.models.open_clip.config import Clip

PER_SHARD = 1024
FORM = "projected, not normalised"


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
    identity = ClipEncoder(_load_clip(base, content, device), device, "fp32", "").identity
    vector_store = EmbeddingCache(store, {**identity, "vectors": FORM}, compute_code_version(__name__))
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
def _load_clip(base: str, content: str, device: str) -> Clip:
    """Return a checkpoint; it is loaded once while the folder's hash is ``content``."""
    return load_checkpoint(base, device)


def encode_images(
    shard: list[tuple[str, bytes]], *, base: str, content: str, device: str, batch_size: int
) -> pa.Table:
    """Return keys and vectors of images; an item is (key, encoded file)."""
    import torch

    clip = _load_clip(base, content, device)

    def encode_batch(files: list[Any]) -> torch.Tensor:
        features: torch.Tensor = clip.model.encode_image(
            normalise_pixels(clip, torch.from_numpy(decode_images(clip, files)).to(device))
        )
        return features

    return _encode_shard(shard, encode_batch, batch_size)


def encode_texts(
    shard: list[tuple[str, str]], *, base: str, content: str, device: str, batch_size: int
) -> pa.Table:
    """Return keys and vectors of texts; an item is (key, text)."""
    import torch

    clip = _load_clip(base, content, device)

    def encode_batch(texts: list[Any]) -> torch.Tensor:
        features: torch.Tensor = clip.model.encode_text(
            torch.from_numpy(tokenize_texts(clip, texts)).to(device)
        )
        return features

    return _encode_shard(shard, encode_batch, batch_size)


def _encode_shard(
    shard: Sequence[tuple[str, Any]], encode: Callable[[list[Any]], Any], batch_size: int
) -> pa.Table:
    """Return keys and vectors of the items, encoded in batches."""
    import torch

    items = [item for _, item in shard]
    with torch.no_grad():
        parts = [
            encode(items[start : start + batch_size]).float().cpu()
            for start in range(0, len(items), batch_size)
        ]
    return build_vector_table([bytes.fromhex(key) for key, _ in shard], torch.cat(parts).numpy())
