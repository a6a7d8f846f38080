"""Intervals of a share."""

from __future__ import annotations

import math

Z = 1.959963984540054  # 97.5th percentile of the normal distribution


def variance_factor(folds: int) -> float:
    """Return by how much folds that learn from each other may multiply the variance of an accuracy.

    Nadeau & Bengio (2003); see ``attack_figures``.
    """
    return 1 + folds / (folds - 1)


def wilson(hits: float, n: float) -> tuple[float, float]:
    """Return the 95 % score interval of a share (Wilson 1927); (0, 1) where nothing was counted.

    Half hits, such as ties, may be counted, and n may be an effective number.
    """
    if n == 0:
        return 0.0, 1.0
    share, spread = hits / n, Z * Z / n
    half = Z * math.sqrt(share * (1 - share) / n + spread / (4 * n))
    low, high = share + spread / 2 - half, share + spread / 2 + half
    return max(0.0, low / (1 + spread)), min(1.0, high / (1 + spread))
