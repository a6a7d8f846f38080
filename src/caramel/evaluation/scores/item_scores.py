"""Hold a model's scores on the items of one task: cosines of vectors, or one number per pair."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from caramel.errors import BackendError
from caramel.interfaces.benchmark import Index
from caramel.interfaces.model import Embeddings
from caramel.utils.arrays import Floats

BLOCK = 8192  # rows whose embeddings are gathered at a time, to bound memory


class ItemScores(Protocol):
    """A model's scores on the items of one task."""

    def score_against_images(self, texts: Index, images: Index) -> Floats:
        """Return the score of each row (n,) of a text and an image, both present."""
        ...

    def score_between_texts(self, left: Index, right: Index) -> Floats:
        """Return the score of each row (n,) of two texts, both present."""
        ...

    def score_all_pairs(self, texts: Index, images: Index) -> Floats:
        """Return the scores of all texts with all images, (texts, images)."""
        ...


Pairs = Callable[[], tuple[Index, Index]]
# A task's distinct texts, and a function that returns the needed (text, image) rows -> a model's scores on them.
Encode = Callable[[Sequence[str], Pairs], ItemScores]


@dataclass(frozen=True)
class DualEncoderScores:
    """Cosines of a dual encoder.

    Products of float32 are exact in float64, and every row is summed in the same order. So two captions with equal
    embeddings tie exactly, whatever rows they are in.
    """

    images: Embeddings  # (distinct images, d)
    image_index: Index  # image of the task -> its row in ``images``
    texts: Embeddings  # (texts, d)

    @cached_property
    def _first_image(self) -> Index:
        return _find_first_equal(self.images)

    @cached_property
    def _first_text(self) -> Index:
        return _find_first_equal(self.texts)

    def score_against_images(self, texts: Index, images: Index) -> Floats:
        """Return the cosine of each row (n,) of text and image."""
        return compute_dot_products(self.texts, texts, self.images, self.image_index[images])

    def score_between_texts(self, left: Index, right: Index) -> Floats:
        """Return the cosine of each row (n,) of two texts."""
        return compute_dot_products(self.texts, left, self.texts, right)

    def score_all_pairs(self, texts: Index, images: Index) -> Floats:
        """Return the cosines of all texts with all images, (texts, images)."""
        # Equal embeddings are multiplied once, because the sums of a matrix product depend on the position in it.
        rows, row_of = np.unique(self._first_text[texts], return_inverse=True)
        columns, column_of = np.unique(self._first_image[self.image_index[images]], return_inverse=True)
        scores = self.texts[rows].astype(np.float64) @ self.images[columns].astype(np.float64).T
        return scores[np.ix_(row_of, column_of)]


@dataclass(frozen=True)
class TextEncoderScores:
    """Scores of a text encoder, which has no scores for images."""

    texts: Embeddings
    images: int

    def score_against_images(self, texts: Index, images: Index) -> Floats:
        """Return NaN for each row (n,)."""
        return np.full(len(texts), np.nan)

    def score_between_texts(self, left: Index, right: Index) -> Floats:
        """Return the cosine of each row (n,) of two texts."""
        return compute_dot_products(self.texts, left, self.texts, right)

    def score_all_pairs(self, texts: Index, images: Index) -> Floats:
        """Return NaN, (texts, images)."""
        return np.full((len(texts), len(images)), np.nan)


@dataclass(frozen=True)
class MatcherScores:
    """Scores of a matcher for the requested pairs."""

    pairs: Index  # sorted: distinct image * number of texts + text
    scores: Floats  # one per pair
    texts: int
    image_index: Index

    def score_against_images(self, texts: Index, images: Index) -> Floats:
        """Return the score of each row (n,) of text and image, which must be a requested pair."""
        wanted = self.image_index[images] * self.texts + texts
        at = np.searchsorted(self.pairs, wanted)
        assert (self.pairs[at] == wanted).all(), "a pair was not requested"
        values: Floats = self.scores[at]
        return values

    def score_between_texts(self, left: Index, right: Index) -> Floats:
        """Return NaN for each row (n,)."""
        return np.full(len(left), np.nan)

    def score_all_pairs(self, texts: Index, images: Index) -> Floats:
        """Return the scores of all texts with all images, (texts, images)."""
        grid = np.meshgrid(texts, images, indexing="ij")
        return self.score_against_images(grid[0].reshape(-1), grid[1].reshape(-1)).reshape(grid[0].shape)


def _find_first_equal(vectors: Embeddings) -> Index:
    """Return for each row the index of the first row equal to it, (n,)."""
    first_rows: dict[bytes, int] = {}  # keyed by a hash, because the rows themselves may not fit into memory
    keys = (hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in vectors)
    return np.array([first_rows.setdefault(key, i) for i, key in enumerate(keys)], np.int64)


def compute_dot_products(left: Embeddings, a: Index, right: Embeddings, b: Index) -> Floats:
    """Return the dot product of ``left[a]`` and ``right[b]`` per row."""
    result = np.empty(len(a))
    for start in range(0, len(a), BLOCK):
        block = slice(start, start + BLOCK)
        result[block] = (left[a[block]].astype(np.float64) * right[b[block]]).sum(axis=1)
    return result


def check_finite(vectors: Embeddings, name: str) -> Embeddings:
    """Return the vectors if they are finite.

    Raises:
        BackendError: a vector holds NaN or infinity.
    """
    for start in range(0, len(vectors), BLOCK):
        bad = int((~np.isfinite(vectors[start : start + BLOCK])).any(axis=1).sum())
        if bad:
            raise BackendError(
                f"Number of items for which model {name!r} gave NaN or infinity: {bad}. Its weights are broken or "
                f"the precision is too low: try --precision fp32."
            )
    return vectors
