"""Read the scene of an image exactly by template matching, without any trained model.

Each cell of the grid is compared, in one matrix product, with every icon in every colour, size and place that
the world can draw. A cell is counted as unreadable, and not guessed, if its best icon leaves too much of it
unexplained.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from caramel.sources.world.drawing import BACKGROUND_RGB, CANVAS, CELL, COLOUR_RGB, draw_icon_masks
from caramel.sources.world.scenes import COLOURS, GRID, NOUNS, SIZES, Scene, SceneObject

BATCH_SIZE = 256  # images that are compared at a time
EMPTY = 0.35  # a cell with less than this share of the faintest icon's energy is empty
UNEXPLAINED = 0.35  # an icon may leave at most this share of its own energy unexplained


@dataclass(frozen=True)
class ImageReading:
    """The scene that was read, and the number of cells whose content is not an icon."""

    scene: Scene
    unreadable: int


@functools.cache
def _build_templates(background: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return templates (n, CELL·CELL·3), as differences from the background, and their energies."""
    offset = np.array([COLOUR_RGB[c] for c in COLOURS], np.float32)
    offset -= np.array(BACKGROUND_RGB[background], np.float32)
    flat = draw_icon_masks().reshape(-1, CELL * CELL)  # (noun·size·jitter, pixels)
    templates = (
        flat[:, None, :, None] * offset[None, :, None, :] / np.float32(255)
    )  # (…, colour, pixels, rgb)
    templates = templates.reshape(-1, CELL * CELL * 3)
    energy: npt.NDArray[np.float32] = (templates**2).sum(1)
    return templates, energy


def read_images(images: npt.NDArray[np.uint8]) -> list[ImageReading]:
    """Return the reading of each image; ``images`` has shape (n, 48, 48, 3)."""
    if images.shape[1:] != (CANVAS, CANVAS, 3):
        raise ValueError(f"images must have shape (n, {CANVAS}, {CANVAS}, 3), not {images.shape}")
    names = list(BACKGROUND_RGB)
    palette = np.array([BACKGROUND_RGB[n] for n in names], np.float32)
    readings: dict[int, ImageReading] = {}
    for start in range(0, len(images), BATCH_SIZE):
        part = images[start : start + BATCH_SIZE].astype(np.float32)
        middle = np.median(part.reshape(len(part), -1, 3), axis=1)  # icons cover less than half
        nearest = ((middle[:, None] - palette) ** 2).sum(2).argmin(1)
        differences = part - middle[:, None, None]
        for background in np.unique(nearest).tolist():
            rows = np.flatnonzero(nearest == background)
            read = _read_differences(differences[rows], names[background])
            readings |= dict(zip((start + rows).tolist(), read, strict=True))
    return [readings[index] for index in range(len(images))]


def _read_differences(differences: npt.NDArray[np.float32], background: str) -> list[ImageReading]:
    """Read images that share one background, given as differences from it: (n, CANVAS, CANVAS, 3)."""
    templates, energy = _build_templates(background)
    cells = differences.reshape(-1, GRID, CELL, GRID, CELL, 3).transpose(0, 1, 3, 2, 4, 5)
    cells = cells.reshape(len(differences) * GRID * GRID, -1) / np.float32(255)  # (4 n, CELL·CELL·3)
    power = (cells**2).sum(1)
    filled = np.flatnonzero(power >= EMPTY * energy.min())
    error = power[filled, None] - 2 * cells[filled] @ templates.T + energy  # (k, templates)
    best = error.argmin(1)
    share = error[np.arange(len(filled)), best] / energy[best]
    shape = (*draw_icon_masks().shape[:4], len(COLOURS))
    objects: list[list[SceneObject]] = [[] for _ in differences]
    unreadable = [0] * len(differences)
    for number, template, unexplained in zip(filled.tolist(), best.tolist(), share.tolist(), strict=True):
        index, cell = divmod(number, GRID * GRID)
        if unexplained > UNEXPLAINED:
            unreadable[index] += 1
            continue
        noun, size, _, _, colour = (int(i) for i in np.unravel_index(template, shape))
        objects[index].append(SceneObject(NOUNS[noun], COLOURS[colour], SIZES[size], *divmod(cell, GRID)))
    return [
        ImageReading(Scene(tuple(of_image), background), count)
        for of_image, count in zip(objects, unreadable, strict=True)
    ]
