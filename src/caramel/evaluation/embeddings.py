"""Embeddings of rows of images and texts: every distinct item is encoded once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from caramel.errors import BackendError
from caramel.models.dual_encoder import DualEncoder, Embeddings

Item = TypeVar("Item", bound=Hashable)
Index = npt.NDArray[np.int64]


class Embedded(NamedTuple):
    """Embeddings of the distinct items, and where each row finds its own.

    The embedding of image row ``i`` is ``images[image_of[i]]``; texts likewise.
    """

    images: Embeddings  # (distinct images, d)
    image_of: Index  # (image rows,)
    texts: Embeddings  # (distinct texts, d)
    text_of: Index  # (text rows,)


def embed(encoder: DualEncoder, images: Sequence[bytes], texts: Sequence[str], *, batch: int) -> Embedded:
    """Return the embeddings of all rows; equal images (by content) and equal texts share one.

    Args:
        encoder: the model.
        images: encoded image files, one per row.
        texts: captions, one per row.
        batch: items per forward pass.

    Raises:
        BackendError: the model gave embeddings of a wrong shape, or numbers that are not finite.
    """
    pictures, image_of = distinct(images)
    captions, text_of = distinct(texts)
    seen = _checked(encoder.encode_images(pictures, batch), len(pictures), encoder.name, "images")
    read = _checked(encoder.encode_texts(captions, batch), len(captions), encoder.name, "texts")
    if seen.shape[1] != read.shape[1]:
        raise BackendError(
            f"Model {encoder.name!r} embeds images in {seen.shape[1]} dimensions but texts in "
            f"{read.shape[1]}: it is no dual encoder with one space."
        )
    return Embedded(seen, image_of, read, text_of)


def distinct(items: Sequence[Item]) -> tuple[list[Item], Index]:
    """Return the distinct items by first appearance, and the place of each row's item among them."""
    places: dict[Item, int] = {}
    index = np.fromiter((places.setdefault(item, len(places)) for item in items), np.int64, len(items))
    return list(places), index


def _checked(vectors: Embeddings, rows: int, name: str, kind: str) -> Embeddings:
    """Return the vectors if they are (rows, d) finite numbers."""
    if vectors.ndim != 2 or len(vectors) != rows:
        raise BackendError(
            f"Model {name!r} returned embeddings of shape {vectors.shape} for {rows} distinct {kind}; "
            f"expected ({rows}, d)."
        )
    bad = int((~np.isfinite(vectors)).any(axis=1).sum())
    if bad:
        raise BackendError(
            f"Model {name!r} gave NaN or infinity for {bad} of {rows} distinct {kind}. Its weights "
            f"are broken or the precision is too low: try `run.precision: fp32`, or train it again."
        )
    return vectors
