"""Compute the power of a study: the t test of the mean over draws of the scenes.

Draws of the scenes are independent, and everything else is nested within them. So the mean over draws has a t
interval with draws − 1 degrees of freedom for any components. Its expected length follows from the components.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import cycle, islice
from typing import NamedTuple

import numpy as np

from caramel.study.components import INSTANCES, Component
from caramel.utils.arrays import Floats
from caramel.utils.stats import LEVEL

POWER = 0.8
QUANTILES = 2000
MOST = 1000  # largest number of levels that is searched
FACTOR_NAMES = (INSTANCES, "scenes", "generator", "base", "fine-tuning")


class Design(NamedTuple):
    """Size of a study: generators and bases of each draw of the scenes, fine-tuning seeds, test instances."""

    draws: tuple[tuple[int, int], ...]
    seeds: int
    instances: float


def variance_of_mean(components: Sequence[Component], design: Design, *, instances: float) -> float:
    """Return the variance of the mean over the draws of the scenes.

    Args:
        components: components of one run's metric. A joint component "a + b" counts as a, the coarsest
            factor, so that more levels of b may help more than computed.
        design: of the planned study.
        instances: number of test instances in the study that gave the components.
    """
    per_draw = np.array([_count_levels(generators, bases, design) for generators, bases in design.draws])
    weights = dict(zip((*FACTOR_NAMES, "generator × base"), (1 / per_draw).mean(axis=0), strict=True))
    weights[INSTANCES] *= instances / design.instances
    total = sum(part.variance * weights[part.name.split(" + ")[0]] for part in components)
    return float(total / len(design.draws))


def _count_levels(generators: int, bases: int, design: Design) -> tuple[int, ...]:
    """Return the number of levels of each kind in the mean of one draw, in the order of ``KINDS``, the interaction last."""
    return 1, 1, generators, bases, generators * bases * design.seeds, generators * bases


def compute_power(variance: float, draws: int, effect: float) -> float:
    """Return the power of the two-sided t test over draws at 5 %, in [0, 1].

    It averages normal tails over the quantiles of the estimated standard error. Unlike the library's
    noncentral t, this can be computed for arbitrarily large effects.
    """
    from scipy.stats import norm

    if variance <= 0:
        return 1.0
    limits, shift = _compute_limits(draws), effect / variance**0.5
    tails: Floats = norm.sf(limits - shift) + norm.cdf(-limits - shift)
    return float(tails.mean())


@cache
def _compute_limits(draws: int) -> Floats:
    """Return the limits of the t test, in standard deviations of the mean, for quantiles of its estimated standard error.

    They are kept, because the searches below ask for the same numbers of draws hundreds of times.
    """
    from scipy.stats import chi2, t

    errors = np.sqrt(chi2.ppf((np.arange(QUANTILES) + 0.5) / QUANTILES, draws - 1) / (draws - 1))
    limits: Floats = t.ppf((1 + LEVEL) / 2, draws - 1) * errors
    limits.flags.writeable = False
    return limits


def compute_detectable_effect(variance: float, draws: int) -> float:
    """Return the smallest effect with a power of 80 %."""
    low, high = 0.0, 100 * float(max(variance, 1e-12) ** 0.5)
    for _ in range(60):
        middle: float = (low + high) / 2
        low, high = (low, middle) if compute_power(variance, draws, middle) >= POWER else (middle, high)
    return high


def compute_required_sizes(
    components: Sequence[Component], design: Design, *, instances: float, effect: float
) -> Mapping[str, int | None]:
    """Return the number of each kind that gives a power of 80 %, with all others as in the design.

    Instances and draws of the scenes are totals. Generators and bases are per draw, seeds per generator and
    base. None means that ``MOST`` are not enough (for instances: ``MOST`` times as many). ``scenes, one of
    each`` is the number of draws of the scenes with one generator, one base and one seed each.
    """

    def find_least(numbers: Sequence[int], sized: Callable[[int], Design]) -> int | None:
        """Return the first number of an increasing sequence that is enough."""

        def has_power(number: int) -> bool:
            size = sized(number)
            return (
                compute_power(
                    variance_of_mean(components, size, instances=instances), len(size.draws), effect
                )
                >= POWER
            )

        index = bisect_left(numbers, True, key=has_power)
        return numbers[index] if index < len(numbers) else None

    pattern, many = design.draws, range(1, MOST + 1)
    steps = np.geomspace(max(design.instances / 10, 1), design.instances * MOST, 400)
    return {
        INSTANCES: find_least(steps.round().astype(int).tolist(), lambda n: design._replace(instances=n)),
        "scenes": find_least(many[1:], lambda n: design._replace(draws=tuple(islice(cycle(pattern), n)))),
        "generator": find_least(
            many, lambda n: design._replace(draws=tuple((n, bases) for _, bases in pattern))
        ),
        "base": find_least(many, lambda n: design._replace(draws=tuple((some, n) for some, _ in pattern))),
        "fine-tuning": find_least(many, lambda n: design._replace(seeds=n)),
        "scenes, one of each": find_least(many[1:], lambda n: Design(((1, 1),) * n, 1, design.instances)),
    }
