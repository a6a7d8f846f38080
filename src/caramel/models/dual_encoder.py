"""What a dual encoder is to the rest of caramel: two functions into one space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Embeddings = npt.NDArray[np.float32]


class DualEncoder(Protocol):
    """A model that embeds images and texts; the score of a pair is their cosine."""

    name: str

    def encode_images(self, images: Sequence[bytes], batch: int) -> Embeddings:
        """Return unit vectors, shape (n, d), for encoded image files."""
        ...

    def encode_texts(self, texts: Sequence[str], batch: int) -> Embeddings:
        """Return unit vectors, shape (n, d)."""
        ...
