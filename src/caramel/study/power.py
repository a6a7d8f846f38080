"""How likely a study of some size shows an effect: the t test of the mean over draws of the scenes.

Draws of the scenes are independent of each other, all else is within them. So the mean over draws has a t interval with
draws − 1 degrees of freedom, whatever the components are; how long it is to be expected follows from them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from typing import NamedTuple

import numpy as np

from caramel.study.components import INSTANCES, Component
from caramel.utils.arrays import Floats
from caramel.utils.stats import LEVEL

POWER = 0.8
QUANTILES = 2000
MOST = 1000  # levels of a kind up to which a number is looked for
FACTOR_NAMES = (INSTANCES, "scenes", "generator", "base", "fine-tuning")


class Design(NamedTuple):
    """The size of a study: generators and bases of each draw of the scenes, seeds of fine-tuning, test instances."""

    draws: tuple[tuple[int, int], ...]
    seeds: int
    instances: float


def variance_of_mean(components: Sequence[Component], design: Design, *, instances: float) -> float:
    """Return the variance of the mean over the draws of the scenes.

    Args:
        components: components of a figure of one run; of factors that the layout could not tell apart, "a + b" counts
            as a, the coarsest: more of b may then help more than is said.
        design: of the study that is thought of.
        instances: test instances of the study that the components are of.
    """
    per_draw = np.array([_count_levels(generators, bases, design) for generators, bases in design.draws])
    weights = dict(zip((*FACTOR_NAMES, "generator × base"), (1 / per_draw).mean(axis=0), strict=True))
    weights[INSTANCES] *= instances / design.instances
    total = sum(part.variance * weights[part.name.split(" + ")[0]] for part in components)
    return float(total / len(design.draws))


def _count_levels(generators: int, bases: int, design: Design) -> tuple[int, ...]:
    """Return how many levels of each kind the mean of one draw is over, in the order of ``KINDS``; the interaction last."""
    return 1, 1, generators, bases, generators * bases * design.seeds, generators * bases


def compute_power(variance: float, draws: int, effect: float) -> float:
    """Return the chance that the two-sided t test over draws at 5 % finds an effect, in [0, 1].

    It is the mean of the normal tails over the quantiles of the standard error that is found, which, unlike the library's
    noncentral t, can be computed however far out the effect is.
    """
    from scipy.stats import chi2, norm, t

    if variance <= 0:
        return 1.0
    errors = np.sqrt(chi2.ppf((np.arange(QUANTILES) + 0.5) / QUANTILES, draws - 1) / (draws - 1))
    limits, shift = t.ppf((1 + LEVEL) / 2, draws - 1) * errors, effect / variance**0.5
    tails: Floats = norm.sf(limits - shift) + norm.cdf(-limits - shift)
    return float(tails.mean())


def compute_detectable_effect(variance: float, draws: int) -> float:
    """Return the smallest effect that is found with a chance of 80 %."""
    low, high = 0.0, 100 * float(max(variance, 1e-12) ** 0.5)
    for _ in range(60):
        middle: float = (low + high) / 2
        low, high = (low, middle) if compute_power(variance, draws, middle) >= POWER else (middle, high)
    return high


def compute_required_sizes(
    components: Sequence[Component], design: Design, *, instances: float, effect: float
) -> Mapping[str, int | None]:
    """Return how many of each kind find an effect with a chance of 80 %, all others being as in the design.

    Instances are in all, draws of the scenes in all, generators and bases per draw, seeds per generator and base. None: not
    with ``MOST`` of them (of instances, not with ``MOST`` times as many). ``scenes, one of each``: draws of the scenes,
    each with one generator, one base and one seed.
    """

    def find_least(numbers: Sequence[int], sized: Callable[[int], Design]) -> int | None:
        """Return the first number of a rising sequence that is enough."""

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
