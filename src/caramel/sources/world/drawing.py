"""Draw a scene as an image: 48 × 48 pixels, one icon per object, drawn as vectors and scaled down."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from caramel.sources.world.scenes import GRID, NOUNS, SIZES, Scene

CELL = 24  # pixels
CANVAS = CELL * GRID
JITTER = 1  # largest offset in pixels of an icon from the middle of its cell
ICON = {"small": 14, "large": 20}  # pixels
COLOUR_RGB = {
    "red": (214, 32, 32),
    "orange": (250, 135, 15),
    "yellow": (238, 208, 20),
    "green": (40, 160, 60),
    "blue": (40, 80, 220),
    "purple": (125, 50, 165),
    "pink": (245, 120, 190),
    "black": (25, 25, 25),
}
BACKGROUND_RGB = {"white": (255, 255, 255), "grey": (228, 228, 228), "cream": (255, 244, 216)}
_SCALE = 64  # vector units per icon
Pen = ImageDraw.ImageDraw


def _draw_tree(pen: Pen) -> None:
    pen.polygon([(32, 0), (4, 44), (60, 44)], fill=255)
    pen.rectangle((25, 44, 39, 63), fill=255)


def _draw_house(pen: Pen) -> None:
    pen.polygon([(32, 0), (0, 30), (63, 30)], fill=255)
    pen.rectangle((8, 30, 56, 63), fill=255)
    pen.rectangle((25, 42, 39, 63), fill=0)


def _draw_car(pen: Pen) -> None:
    pen.polygon([(16, 14), (46, 14), (56, 32), (8, 32)], fill=255)
    pen.rectangle((0, 30, 63, 46), fill=255)
    pen.ellipse((8, 38, 26, 56), fill=255)
    pen.ellipse((38, 38, 56, 56), fill=255)
    pen.rectangle((22, 19, 40, 29), fill=0)


def _draw_boat(pen: Pen) -> None:
    pen.polygon([(0, 42), (63, 42), (50, 62), (13, 62)], fill=255)
    pen.polygon([(35, 0), (35, 38), (62, 38)], fill=255)
    pen.polygon([(28, 10), (28, 38), (8, 38)], fill=255)


def _draw_cup(pen: Pen) -> None:
    pen.polygon([(4, 10), (44, 10), (38, 58), (10, 58)], fill=255)
    pen.arc((32, 16, 62, 46), -100, 120, fill=255, width=9)


def _draw_book(pen: Pen) -> None:
    pen.rectangle((4, 4, 59, 59), fill=255)
    pen.rectangle((14, 4, 20, 59), fill=0)


def _draw_wheel(pen: Pen) -> None:
    pen.ellipse((2, 2, 61, 61), outline=255, width=11)
    pen.rectangle((28, 4, 35, 59), fill=255)
    pen.rectangle((4, 28, 59, 35), fill=255)


def _draw_van(pen: Pen) -> None:
    pen.polygon([(4, 14), (46, 14), (56, 32), (4, 32)], fill=255)
    pen.rectangle((0, 30, 63, 46), fill=255)
    pen.ellipse((8, 38, 26, 56), fill=255)
    pen.ellipse((38, 38, 56, 56), fill=255)
    pen.rectangle((32, 19, 43, 29), fill=0)


_DRAW: dict[str, Callable[[Pen], None]] = {
    "ball": lambda pen: pen.ellipse((2, 2, 61, 61), fill=255),
    "box": lambda pen: pen.rectangle((4, 4, 59, 59), fill=255),
    "tree": _draw_tree,
    "house": _draw_house,
    "car": _draw_car,
    "boat": _draw_boat,
    "cup": _draw_cup,
    "ring": lambda pen: pen.ellipse((2, 2, 61, 61), outline=255, width=16),
    "egg": lambda pen: pen.ellipse((9, 2, 54, 61), fill=255),
    "book": _draw_book,
    "wheel": _draw_wheel,
    "van": _draw_van,
}


@functools.cache
def draw_icon_masks() -> npt.NDArray[np.float32]:
    """Return icon coverage in [0, 1]: shape (noun, size, dy, dx, CELL, CELL).

    ``dy`` and ``dx`` index the jitter, from -JITTER to +JITTER.
    """
    steps = 2 * JITTER + 1
    out = np.zeros((len(NOUNS), len(SIZES), steps, steps, CELL, CELL), np.float32)
    for n, noun in enumerate(NOUNS):
        vector = Image.new("L", (_SCALE, _SCALE))
        _DRAW[noun](ImageDraw.Draw(vector))
        for s, size in enumerate(SIZES):
            pixels = ICON[size]
            icon = np.asarray(vector.resize((pixels, pixels), Image.Resampling.BOX), np.float32) / 255
            for dy in range(steps):
                for dx in range(steps):
                    top = (CELL - pixels) // 2 + dy - JITTER
                    left = (CELL - pixels) // 2 + dx - JITTER
                    out[n, s, dy, dx, top : top + pixels, left : left + pixels] = icon
    return out


def draw_scene(scene: Scene, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Return the image of the scene, shape (48, 48, 3); ``rng`` places icons in their cells."""
    image = np.empty((CANVAS, CANVAS, 3), np.float32)
    image[:] = BACKGROUND_RGB[scene.background]
    for obj in scene.things:
        dy, dx = rng.integers(2 * JITTER + 1, size=2).tolist()
        mask = draw_icon_masks()[NOUNS.index(obj.noun), SIZES.index(obj.size), dy, dx, :, :, None]
        rows = slice(obj.row * CELL, (obj.row + 1) * CELL)
        columns = slice(obj.column * CELL, (obj.column + 1) * CELL)
        colour = np.array(COLOUR_RGB[obj.colour], np.float32)
        image[rows, columns] += mask * (colour - image[rows, columns])
    return np.rint(image).astype(np.uint8)


def encode_png(image: npt.NDArray[np.uint8]) -> bytes:
    """Return the image as PNG bytes; equal pixels give equal bytes."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()
