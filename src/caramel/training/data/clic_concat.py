"""Join two rows into one, as CLIC does: halves of both images, and both captions one after the other.

CLIC (Peleg et al., NeurIPS 2025) joins halves of two images in a random order. The captions use the first
sentences f1 and f2 of both rows, in lower case: p1 = f1 f2 and p2 = f2 f1. The negative is made from both
(``methods.clic_concat_loss``).

- Images are halved in the shape that the model takes, by columns or by rows. Their original shape is lost by
  then, so images are not paired by orientation.
- CLIC's p3 and p4, made of further sentences, are not built.
- The other row is drawn from seed, step and index in the batch; all other draws use seed, step and row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from caramel.interfaces.method import Joins
from caramel.training.data.loader import RowIds, Stack

WORDS, PLACES = 0, 1  # the two kinds of draws for a row; part of their seeds
_END = re.compile(r"(?<=[.!?])\s")


def extract_first_sentence(caption: str) -> str:
    """Return the first sentence of a caption, in lower case."""
    return _END.split(caption.strip(), maxsplit=1)[0].lower()


@dataclass(frozen=True)
class PairingIndex:
    """Index for drawing pairs of rows with different images.

    Attributes:
        sentences: (n,) first sentences of the rows.
        by_image: (n,) row numbers, grouped by image.
        starts, ends: (n,) for each row, where the group of its image starts and ends in ``by_image``.
    """

    sentences: npt.NDArray[np.object_]
    by_image: RowIds
    starts: RowIds
    ends: RowIds

    @classmethod
    def from_sentences(cls, sentences: npt.NDArray[np.object_], image_ids: RowIds) -> Self:
        """Return the index for sentences (n,) and their image ids (n,)."""
        order = np.argsort(image_ids, kind="stable")
        starts, ends = (np.searchsorted(image_ids[order], image_ids, side) for side in ("left", "right"))
        return cls(sentences, order, starts, ends)


class JoinedTexts(NamedTuple):
    """Both captions of n pairs of rows, and their negatives."""

    first: list[str]
    second: list[str]
    negative: list[str]  # equals ``first`` where there is no negative
    negative_mask: npt.NDArray[np.bool_]  # (n,)


def draw_pairs(rows: PairingIndex, chosen: RowIds, seed: int, step: int) -> RowIds:
    """Return each chosen row with a row of another image, drawn uniformly, (n, 2)."""
    starts, ends = rows.starts[chosen], rows.ends[chosen]
    others = len(rows.by_image) - (ends - starts)
    drawn = np.random.default_rng([seed, step]).integers(others)
    return np.stack([chosen, rows.by_image[(ends + drawn) % len(rows.by_image)]], axis=1)


def join_texts(rows: PairingIndex, pairs: RowIds, negative_of: Joins, seed: int, step: int) -> JoinedTexts:
    """Return the captions of pairs (n, 2) of rows and their negatives, by ``Method.joins``."""
    sentences = [(rows.sentences[a], rows.sentences[b]) for a, b in pairs]
    changed = [
        negative_of(a, b, _create_generator(seed, step, row, WORDS))
        for (a, b), row in zip(sentences, pairs[:, 0], strict=True)
    ]
    first = [f"{a} {b}" for a, b in sentences]
    negative = [text if new is None else new for text, new in zip(first, changed, strict=True)]
    negative_mask = np.array([new is not None for new in changed], bool)
    return JoinedTexts(first, [f"{b} {a}" for a, b in sentences], negative, negative_mask)


def join_image_halves(
    first: Stack, second: Stack, rows: Sequence[int] | RowIds, seed: int, step: int
) -> Stack:
    """Return the joined middle halves of images (n, 3, height, width).

    Their order, and whether they are halved by columns or by rows, is drawn for each pair.
    """
    out = np.empty_like(first)
    for index, row in enumerate(rows):
        turned, upright = _create_generator(seed, step, row, PLACES).integers(2, size=2)
        parts = (second[index], first[index]) if turned else (first[index], second[index])
        axis = 1 if upright else 2
        length = out.shape[1 + axis]
        sizes = length // 2, length - length // 2
        out[index] = np.concatenate(
            [_crop_middle(part, size, axis) for part, size in zip(parts, sizes, strict=True)], axis
        )
    return out


def _crop_middle(image: Stack, size: int, axis: int) -> Stack:
    """Return the middle ``size`` pixel rows (axis 1) or columns (axis 2) of an image (3, height, width)."""
    start = (image.shape[axis] - size) // 2
    return image.take(range(start, start + size), axis)


def _create_generator(seed: int, step: int, row: int, what: int) -> np.random.Generator:
    return np.random.default_rng([seed, step, int(row), what])
