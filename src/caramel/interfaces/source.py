"""Interface of a source of pairs, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import pandas as pd


class Source(NamedTuple):
    """Pairs and rejects, each of which keeps its contract."""

    pairs: pd.DataFrame
    rejects: pd.DataFrame


class SaveImage(Protocol):
    """Receives the images of a source, one at a time: ``add_image`` of a ``ShardWriter``."""

    def __call__(
        self, image_id: str, data: bytes, path: str, *, width: int, height: int, source: str, split: str
    ) -> None:
        """Store the encoded file of an image, the file's name, and the image's row of table ``images``."""
        ...


class SourceReader(Protocol):
    """A source of pairs of any type. It uses the settings that it needs."""

    def __call__(
        self,
        *,
        counts: Mapping[str, int],
        num_objects: Sequence[int],
        allow_unmentioned_objects: bool,
        unseen_frac: float,
        typical_color_prob: float,
        absolute_positions: float,
        group_size: int,
        data_dir: str,
        val_test_frac: tuple[float, float],
        seed: int,
        put: SaveImage,
    ) -> Source:
        """Return the pairs, split by image, after passing the images to ``put``.

        Equal settings give equal pairs.

        Args:
            counts, num_objects, allow_unmentioned_objects, unseen_frac, typical_color_prob,
            absolute_positions, group_size:
                for a source that samples; see ``world.sampling.sample_pairs``.
            data_dir, val_test_frac: for a source that reads a folder; see ``folders.read_pairs``.
            seed: seed of all draws, including the split.
            put: called with each image in turn, so that images need not stay in memory.

        Raises:
            ConfigError: the settings contradict each other.
            DataError: the input is missing or broken.
        """
        ...
