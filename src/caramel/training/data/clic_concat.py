"""Two rows as one: halves of their pictures beside each other, and one caption after the other, as CLIC has them.

CLIC (Peleg et al., NeurIPS 2025) joins the halves of two pictures in a random order. The first sentences f1, f2 of their captions, in
lower case, are a caption in either order, p1 = f1 f2 and p2 = f2 f1; its negative is made of both (``methods.clic_joined``). A
picture is halved as the model takes it, by columns or by rows, since what shape it had is gone then; so there are no pairs
of like orientation. Their p3 and p4, of further sentences, are not made. The
other row is drawn from seed, step and place in the batch; all else from seed, step and row.
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

WORDS, PLACES = 0, 1  # what is drawn for a row
_END = re.compile(r"(?<=[.!?])\s")


def extract_first_sentence(caption: str) -> str:
    """Return the first sentence of a caption, in lower case."""
    return _END.split(caption.strip(), maxsplit=1)[0].lower()


@dataclass(frozen=True)
class PairingIndex:
    """What rows are joined by.

    Attributes:
        sentences: (n,) texts.
        by_image: (n,) row numbers, those of one image beside each other.
        starts, ends: (n,) of each row, where those of its image begin and end there.
    """

    sentences: npt.NDArray[np.object_]
    by_image: RowIds
    starts: RowIds
    ends: RowIds

    @classmethod
    def from_sentences(cls, sentences: npt.NDArray[np.object_], image_ids: RowIds) -> Self:
        """Return it of texts (n,) and the numbers of their images (n,)."""
        order = np.argsort(image_ids, kind="stable")
        starts, ends = (np.searchsorted(image_ids[order], image_ids, side) for side in ("left", "right"))
        return cls(sentences, order, starts, ends)


class JoinedTexts(NamedTuple):
    """Of n pairs of rows: both captions, and the negative where there is one."""

    first: list[str]
    second: list[str]
    negative: list[str]  # the first where there is none
    negative_mask: npt.NDArray[np.bool_]  # (n,)


def draw_pairs(rows: PairingIndex, chosen: RowIds, seed: int, step: int) -> RowIds:
    """Return each chosen row and another one that shows another image, any alike, (n, 2)."""
    starts, ends = rows.starts[chosen], rows.ends[chosen]
    others = len(rows.by_image) - (ends - starts)
    drawn = np.random.default_rng([seed, step]).integers(others)
    return np.stack([chosen, rows.by_image[(ends + drawn) % len(rows.by_image)]], axis=1)


def join_texts(rows: PairingIndex, pairs: RowIds, negative_of: Joins, seed: int, step: int) -> JoinedTexts:
    """Return the captions of pairs (n, 2) of rows, and their negatives by ``Method.joins``."""
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
    """Return the middle halves of pictures (n, 3, height, width) joined: which comes first, and by columns or by rows, is drawn."""
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
    """Return so many rows (axis 1) or columns (axis 2) of the middle of a picture (3, height, width)."""
    start = (image.shape[axis] - size) // 2
    return image.take(range(start, start + size), axis)


def _create_generator(seed: int, step: int, row: int, what: int) -> np.random.Generator:
    return np.random.default_rng([seed, step, int(row), what])
