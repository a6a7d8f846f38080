"""A judge of images: does an image show the colors that its caption names?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from caramel.interfaces.judge import MatchScores
from caramel_pairs.colors import find_color_words, measure_colors

COLORS = ("black", "blue", "gray", "green", "red", "white", "yellow")
SHOWN = 0.01  # least share of an image's pixels of a color that it shows


class ColorJudge:
    """Fit is the share of the caption's colors that the image shows; 1 for a caption without a color."""

    name = "color_words"

    def score_match(self, images: Sequence[bytes], captions: Sequence[str]) -> MatchScores:
        """Return the fit of image i and caption i, (n,) in [0, 1]."""
        fits = np.ones(len(captions))
        for index, (image, caption) in enumerate(zip(images, captions, strict=True)):
            named = find_color_words(caption, COLORS) > 0
            if named.any():
                fits[index] = (measure_colors(image, COLORS) >= SHOWN)[named].mean()
        return fits

    def is_ambiguous(
        self, negative: MatchScores, positive: MatchScores, margin: float
    ) -> npt.NDArray[np.bool_]:
        """Return where the negative caption's fit does not exceed the positive's by more than the margin."""
        return negative - positive <= margin


def build_color_judge(**unused: object) -> ColorJudge:
    """Return the judge; it needs no settings."""
    return ColorJudge()
