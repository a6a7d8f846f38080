"""Define the search space of a hyperparameter search, and draw its points.

Each key has a list of values, or a distribution to draw from. A key may name a part of a setting:
``lora.rank``, ``weights.imc``. The points are those of Ray Tune's search spaces: all combinations of the
lists and, for each combination, a number of draws from the distributions. A draw depends only on seed,
variant and key, so that another key or another variant changes no value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from caramel.config.renamed import get_former_key

Point = dict[str, Any]  # key -> value
DISTRIBUTIONS = ("uniform", "loguniform", "choice")
MOST = 10_000  # points per variant
LARGEST = 1e300  # absolute limit for the ends of a distribution


def draw_points(space: Mapping[str, Any], draws: int | None, *, seed: int, name: str) -> list[Point]:
    """Return the distinct points of a space, in its order: later keys change first, and draws last.

    Args:
        space: key -> list of values, or {"uniform" or "loguniform": [low, high]}, or {"choice": values}.
        draws: number of draws per combination of the lists; None if nothing is drawn.
        seed: seed of the draws.
        name: name of the variant, on which the draws also depend.

    Raises:
        ValueError: the space is invalid, or has more than ``MOST`` points.
    """
    for key, tried in space.items():
        _check_values(key, tried)
    lists = {key: tried for key, tried in space.items() if isinstance(tried, list)}
    drawn = {key: tried for key, tried in space.items() if key not in lists}
    if drawn and draws is None:
        raise ValueError(f"{next(iter(drawn))} is drawn, but draws = None does not say how often")
    repeats = draws if drawn and draws else 1
    if (number := math.prod(map(len, lists.values())) * repeats) > MOST:
        raise ValueError(f"the space has {number:,} points; the limit is {MOST:,}")
    generators = {
        key: np.random.default_rng([seed, *name.encode(), 0, *get_former_key(key).encode()]) for key in drawn
    }
    distinct: dict[str, Point] = {}
    for combination in product(*lists.values()):
        for _ in range(repeats):
            point = dict(zip(lists, combination, strict=True))
            point |= {key: _draw_value(tried, generators[key]) for key, tried in drawn.items()}
            distinct.setdefault(json.dumps(point), {key: point[key] for key in space})
    return list(distinct.values())


def _check_values(key: str, tried: Any) -> None:
    """Raise a ValueError if a key has neither a list of values nor a distribution."""
    label = f"{key} = {str(tried)[:100]}"
    if isinstance(tried, list):
        values = tried
    elif (
        isinstance(tried, Mapping)
        and len(tried) == 1
        and (distribution := next(iter(tried))) in DISTRIBUTIONS
    ):
        values = tried[distribution]
        if distribution != "choice":
            _check_ends(label, distribution, values)
    else:
        raise ValueError(f"{label}: a list of values, or one of {', '.join(DISTRIBUTIONS)} with its own")
    if not isinstance(values, list) or not values:
        raise ValueError(f"{label}: the list is empty or missing: there is nothing to try")
    # 1 and 1.0 are the same value, true is another
    if len({json.dumps(json.loads(json.dumps(value), parse_int=float)) for value in values}) < len(values):
        raise ValueError(f"{label}: duplicate value")


def _check_ends(label: str, distribution: str, ends: Any) -> None:
    numbers = isinstance(ends, list) and all(
        isinstance(e, int | float) and e is not True and e is not False for e in ends
    )
    if not (numbers and len(ends) == 2 and -LARGEST < ends[0] < ends[1] < LARGEST):
        raise ValueError(f"{label}: {distribution} needs two numbers, the lower one first")
    if distribution == "loguniform" and ends[0] <= 0:
        raise ValueError(f"{label}: loguniform needs numbers above 0")


def _draw_value(tried: Mapping[str, Any], generator: np.random.Generator) -> Any:
    """Return one value. Numbers have four significant digits, so that they are easy to read and write."""
    ((distribution, values),) = tried.items()
    if distribution == "choice":
        return values[int(generator.integers(len(values)))]
    low, high = map(float, values)
    share = float(generator.random())
    if distribution == "uniform":
        value = low + share * (high - low)
    else:  # in logarithms, because high / low may overflow
        value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return min(max(float(f"{value:.4g}"), low), high)


def merge_point(
    overrides: Mapping[str, Any], point: Mapping[str, Any], common: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a variant's overrides with the values of a point.

    Args:
        overrides: overrides of the variant.
        point: values of a point; keys may name a part of a setting.
        common: settings of all variants; they provide the other parts of a setting that is not in
            ``overrides``.

    Raises:
        ValueError: a key names a part of a setting without parts.
    """
    settings = dict(overrides)
    for key, value in point.items():
        whole, _, part = key.partition(".")
        if not part:
            settings[key] = value
            continue
        before = settings.get(whole, common.get(whole, {}))
        if not isinstance(before, Mapping):
            raise ValueError(f"{key}: {whole} has no parts")
        settings[whole] = {**before, part: value}
    return settings
