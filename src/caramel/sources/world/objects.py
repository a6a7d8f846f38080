"""Pictures of one object in one cell: what a generator learns from that draws scenes object by object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from caramel.schemas.pairs import PAIRS
from caramel.sources.world.compounds import build_mentions
from caramel.sources.world.drawing import CELL, ICON, JITTER, draw_scene, encode_png
from caramel.sources.world.grammar import format_mention, format_sentence
from caramel.sources.world.scenes import Scene, sample_scene

BORDER = (CELL - max(ICON.values())) // 2 - JITTER  # pixels at each side of a cell that no icon reaches


class DrawnExamples(NamedTuple):
    """What a generator learns to draw: table ``pairs``, encoded files by image_id, and their size and border in pixels."""

    pairs: pd.DataFrame
    images: Mapping[str, bytes]
    size: int
    border: int


def select_examples(
    pairs: pd.DataFrame,
    images: Mapping[str, bytes],
    *,
    method: Literal["draw", "edit"],
    size: int,
    number: int,
    seed: int,
) -> DrawnExamples:
    """Return the images of the pairs; where scenes are drawn object by object, those of single objects.

    Args:
        pairs: table ``pairs``.
        images: encoded files by image_id.
        method: draw: scenes as a whole; edit: object by object.
        size: pixels of a side of a whole scene.
        number: of images of objects.
        seed: of these.
    """
    if method == "draw":
        return DrawnExamples(pairs, images, size, 0)
    objects = ObjectImages(number, seed=seed)
    return DrawnExamples(objects.build_pairs(), objects, CELL, BORDER)


class ObjectImages(Mapping[str, bytes]):
    """image_id -> PNG of one object in its cell, (CELL, CELL) pixels, drawn when it is asked for.

    Every noun, colour and size is equally likely, those too that the scenes of train keep apart: a generator makes the
    data and is no model that is tested on it, and one that had never seen a compound would leave it out of the benchmark.
    """

    def __init__(self, number: int, *, seed: int) -> None:
        self._index = {f"object-{index:06d}": index for index in range(number)}
        self._seed = seed

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __getitem__(self, image_id: str) -> bytes:
        scene, rng = self._sample_scene(image_id)
        (obj,) = scene.things
        rows, columns = (slice(cell * CELL, (cell + 1) * CELL) for cell in (obj.row, obj.column))
        return encode_png(draw_scene(scene, rng)[rows, columns])

    def build_pairs(self) -> pd.DataFrame:
        """Return table ``pairs`` of the train split: all that can be said of each object as its caption."""
        rows = []
        for name in self:
            scene, _ = self._sample_scene(name)
            caption = format_sentence(format_mention(build_mentions(scene.things)[0]))
            rows.append((name, name, caption, scene.to_json(), "train", "world"))
        return pd.DataFrame(rows, columns=list(PAIRS.columns))

    def _sample_scene(self, image_id: str) -> tuple[Scene, np.random.Generator]:
        """Return the scene of a picture, and what is drawn at random next."""
        rng = np.random.default_rng([self._seed, self._index[image_id]])
        return sample_scene(rng, num_objects=1, typical_color_prob=0.0), rng
