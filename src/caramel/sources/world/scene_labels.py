"""What a scene shows as labels of a classifier: of each kind of object where it stands, and in what colour and size.

A noun and its look-alike are one kind, as labels of images are coarser than what captions say of them: an image tower
that learns from these labels has to be taught the difference by captions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from caramel.sources.world.scenes import COLOURS, GRID, LOOK_ALIKE, NOUNS, SIZES, Scene

ABSENT = -1  # colour and size of a kind that the scene does not show
# Of each two look-alikes the noun that stands first names the kind.
_CATEGORY = {noun: min(noun, LOOK_ALIKE.get(noun, noun), key=NOUNS.index) for noun in NOUNS}
CATEGORIES = tuple(noun for noun in NOUNS if _CATEGORY[noun] == noun)
CLASSES = (1 + GRID * GRID, len(COLOURS), len(SIZES))  # of a kind: nowhere or a cell; colours; sizes


class SceneLabels(NamedTuple):
    """Labels of n scenes, each (n, kinds).

    Attributes:
        cells: 0 where the scene does not show the kind, else 1 + the number of its cell, row by row.
        colours, sizes: places in ``COLOURS`` and ``SIZES``; ``ABSENT`` of a kind that is not shown.
    """

    cells: npt.NDArray[np.int64]
    colours: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


def label_scenes(scenes: Iterable[str]) -> SceneLabels:
    """Return the labels of scenes that are written as JSON (``Scene.to_json``); of two look-alikes in one, the last is told."""
    rows = [Scene.from_json(scene).things for scene in scenes]
    cells = np.zeros((len(rows), len(CATEGORIES)), np.int64)
    colours, sizes = np.full_like(cells, ABSENT), np.full_like(cells, ABSENT)
    for row, objects in enumerate(rows):
        for obj in objects:
            category = CATEGORIES.index(_CATEGORY[obj.noun])
            cells[row, category] = 1 + GRID * obj.row + obj.column
            colours[row, category] = COLOURS.index(obj.colour)
            sizes[row, category] = SIZES.index(obj.size)
    return SceneLabels(cells, colours, sizes)
