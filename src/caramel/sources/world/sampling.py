"""The embedded world as a source of pairs: sampled scenes, drawn, with one true caption each."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from caramel import tables
from caramel.kinds.source import Source
from caramel.sources.world.drawing import CANVAS, draw, to_png
from caramel.sources.world.language import PATTERNS, realise, shape
from caramel.sources.world.scenes import sample_meaning, sample_scene

SPLIT_TENTHS = {"train": range(8), "val": range(8, 9), "test": range(9, 10)}


def split_of(scene: str) -> str:
    """Return the split of a scene (as JSON): a function of the scene alone, so none is in two."""
    tenth = zlib.crc32(scene.encode()) % 10
    return next(split for split, tenths in SPLIT_TENTHS.items() if tenth in tenths)


def sample_pairs(
    *, counts: Mapping[str, int], objects: Sequence[int], prior: float, seed: int, **unused: object
) -> Source:
    """Return images and pairs of the world; no scene stands in two splits.

    Args:
        counts: scenes per split.
        objects: numbers of objects in a scene, drawn with equal chance.
        prior: chance in [0, 1] that a noun takes its typical colour.
        seed: each scene depends on this, its split and its number alone.
        unused: what sources that read a folder need.
    """
    images, pairs = [], []
    for number, (split, count) in enumerate(counts.items()):
        for index in range(count):
            name = f"{split}-{index:06d}"
            rng = np.random.default_rng([seed, number, index])
            while True:  # ends: each split holds at least a tenth of all scenes
                scene = sample_scene(rng, objects=int(rng.choice(objects)), prior=prior)
                text = scene.to_json()
                if split_of(text) == split:
                    break
            meaning = sample_meaning(rng, scene)
            pattern = int(rng.integers(len(PATTERNS[shape(meaning)])))
            picture = {"bytes": to_png(draw(scene, rng)), "path": f"{name}.png"}
            images.append((name, picture, CANVAS, CANVAS, "world", split))
            pairs.append((name, name, realise(meaning, pattern), text, split, "world"))
    return Source(
        pd.DataFrame(images, columns=list(tables.IMAGES.columns)),
        pd.DataFrame(pairs, columns=list(tables.PAIRS.columns)),
        tables.frame(tables.REJECTS, []),
    )
