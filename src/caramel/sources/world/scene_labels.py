"""What a scene shows as labels of a classifier: of each noun where it stands, and in what colour and size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from caramel.sources.world.scenes import COLOURS, GRID, NOUNS, SIZES, Scene

ABSENT = -1  # colour and size of a noun that the scene does not show
CLASSES = (1 + GRID * GRID, len(COLOURS), len(SIZES))  # of a noun: nowhere or a cell; colours; sizes


class SceneLabels(NamedTuple):
    """Labels of n scenes, each (n, nouns).

    Attributes:
        cells: 0 where the scene does not show the noun, else 1 + the number of its cell, row by row.
        colours, sizes: places in ``COLOURS`` and ``SIZES``; ``ABSENT`` of a noun that is not shown.
    """

    cells: npt.NDArray[np.int64]
    colours: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


def label_scenes(scenes: Iterable[str]) -> SceneLabels:
    """Return the labels of scenes that are written as JSON (``Scene.to_json``)."""
    rows = [Scene.from_json(scene).things for scene in scenes]
    cells = np.zeros((len(rows), len(NOUNS)), np.int64)
    colours, sizes = np.full_like(cells, ABSENT), np.full_like(cells, ABSENT)
    for row, things in enumerate(rows):
        for thing in things:
            noun = NOUNS.index(thing.noun)
            cells[row, noun] = 1 + GRID * thing.row + thing.column
            colours[row, noun] = COLOURS.index(thing.colour)
            sizes[row, noun] = SIZES.index(thing.size)
    return SceneLabels(cells, colours, sizes)
