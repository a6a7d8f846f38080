"""Made images for benchmarks without data."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

SIZE, BLOCKS = 224, 8  # pixels and blocks per side


def draw_mock_image(number: int) -> bytes:
    """Return a PNG of random colored blocks; each number gives another image."""
    blocks = np.random.default_rng(number).integers(0, 256, (BLOCKS, BLOCKS, 3), dtype=np.uint8)
    pixels = blocks.repeat(SIZE // BLOCKS, axis=0).repeat(SIZE // BLOCKS, axis=1)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()
