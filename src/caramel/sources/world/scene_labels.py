"""Turn scenes into classifier labels: the cell, colour and size of each kind of object.

A noun and its look-alike are one kind, because labels of images are coarser than captions. An image tower
that is trained on these labels must learn the difference from captions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from caramel.sources.world.scenes import COLOURS, GRID, LOOK_ALIKE, NOUNS, SIZES, Scene

ABSENT = -1  # colour and size of a kind that the scene does not show
# The first noun of each two look-alikes names the kind.
_CATEGORY = {noun: min(noun, LOOK_ALIKE.get(noun, noun), key=NOUNS.index) for noun in NOUNS}
CATEGORIES = tuple(noun for noun in NOUNS if _CATEGORY[noun] == noun)
CLASSES = (1 + GRID * GRID, len(COLOURS), len(SIZES))  # per kind: no cell or one of the cells; colours; sizes


class SceneLabels(NamedTuple):
    """Labels of n scenes; each array has the shape (n, kinds).

    Attributes:
        cells: 0 if the scene does not show the kind, else 1 + the number of its cell, row by row.
        colours, sizes: indices into ``COLOURS`` and ``SIZES``; ``ABSENT`` if the kind is not shown.
    """

    cells: npt.NDArray[np.int64]
    colours: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


def label_scenes(scenes: Iterable[str]) -> SceneLabels:
    """Return the labels of scenes in JSON (``Scene.to_json``).

    If a scene shows two look-alikes, the last one is labelled.
    """
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
