"""How many items people must judge for a κ, or a baseline, that is known to within a given half-width."""

from __future__ import annotations

import math

from caramel.errors import ConfigError
from caramel.utils.stats import Z


def compute_kappa_sample_size(kappa: float, prevalence: float, half_width: float) -> int:
    """Return the number of items that two annotators must both answer.

    For two annotators who answer yes equally often, the variance of κ is (Bloch & Kraemer 1989; Donner & Eliasziw 1992)
    (1 − κ) [(1 − κ) (1 − 2κ) + κ (2 − κ) / (2 p (1 − p))] / n.

    Args:
        kappa: expected κ, in [0, 1).
        prevalence: expected share p of yes (`some candidate`), in (0, 1).
        half_width: half the length of the 95 % interval, in (0, 1).

    Raises:
        ConfigError: an argument is outside its range.
    """
    _check_range("kappa", kappa, 0 <= kappa < 1, "[0, 1)")
    _check_range("prevalence", prevalence, 0 < prevalence < 1, "(0, 1)")
    _check_range("half_width", half_width, 0 < half_width < 1, "(0, 1)")
    spread = 2 * prevalence * (1 - prevalence)
    variance = (1 - kappa) * ((1 - kappa) * (1 - 2 * kappa) + kappa * (2 - kappa) / spread)
    return _round_up(Z**2 * variance / half_width**2)


def compute_baseline_sample_size(
    accuracy: float, half_width: float, per_annotator: int, correlation: float
) -> int:
    """Return the number of instances of a human baseline, if each is answered once.

    This is the size for a share, p (1 − p) (z / half_width)², times the design effect 1 + (b − 1) ρ of b instances of
    one annotator (Kish 1965, 5.4): instances of one person tell less about people than instances of different persons.

    Args:
        accuracy: expected share of right answers p, in (0, 1).
        half_width: half the length of the 95 % interval, in (0, 1).
        per_annotator: instances b that each annotator answers, at least 1.
        correlation: correlation ρ of two answers of one annotator being right, in [0, 1); 0.01 to 0.05 is usual.

    Raises:
        ConfigError: an argument is outside its range.
    """
    _check_range("accuracy", accuracy, 0 < accuracy < 1, "(0, 1)")
    _check_range("half_width", half_width, 0 < half_width < 1, "(0, 1)")
    _check_range("per_annotator", per_annotator, per_annotator >= 1, "[1, ∞)")
    _check_range("correlation", correlation, 0 <= correlation < 1, "[0, 1)")
    effect = 1 + (per_annotator - 1) * correlation
    return _round_up(effect * accuracy * (1 - accuracy) * (Z / half_width) ** 2)


def _round_up(size: float) -> int:
    """Return the next whole number, at least 2."""
    return max(2, math.ceil(round(size, 6)))


def _check_range(name: str, value: float, is_inside: bool, allowed: str) -> None:
    """Raise a ConfigError unless the value is inside its range."""
    if not is_inside:
        raise ConfigError(f"{name} = {value!r} is outside {allowed}.")
