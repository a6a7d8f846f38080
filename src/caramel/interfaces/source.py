"""What a source of pairs is, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import pandas as pd


class Source(NamedTuple):
    """Pairs, and what had to be left out, each keeping its contract."""

    pairs: pd.DataFrame
    rejects: pd.DataFrame


class SaveImage(Protocol):
    """Takes the images of a source, one at a time: ``add`` of a ``ShardWriter``."""

    def __call__(
        self, image_id: str, data: bytes, path: str, *, width: int, height: int, source: str, split: str
    ) -> None:
        """Take the encoded file of an image, the name of that file, and the image's row of table ``images``."""
        ...


class SourceReader(Protocol):
    """A source of pairs, of whatever kind: of the settings it takes what it needs."""

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
        """Return the pairs, split by image, after handing over the images; equal settings give equal ones.

        Args:
            counts, num_objects, allow_unmentioned_objects, unseen_frac, typical_color_prob, absolute_positions, group_size: of a source that samples; see
                ``world.sampling.sample_pairs``.
            data_dir, val_test_frac: of a source that reads a folder; see ``folders.read_pairs``.
            seed: of what is drawn, the split included.
            put: called with each image in turn, so that none has to be kept.

        Raises:
            ConfigError: the settings do not go together.
            DataError: what is read is missing or broken.
        """
        ...
