"""Estimate the variance components of a metric by the method of moments.

Model: the metric of a run is μ + independent effects of its scenes, generator, base, … and fine-tuning, each
with a variance of its own. The uncorrected sums of squares over the levels of each factor are equated to
their expectations (Henderson 1953, method I; Searle, Casella & McCulloch 1992, 5.3). The estimates are
unbiased for any layout. For a balanced layout they are those of the analysis of variance. A negative estimate
is shown as zero and marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.study.cells import Cell
from caramel.utils.arrays import Floats, Ints
from caramel.utils.stats import LEVEL

SIMULATIONS, HALVINGS = 2000, 40
INSTANCES = "instances"  # the part of the scenes' component that shrinks with more test instances
Factors = Mapping[str, Ints]


class Component(NamedTuple):
    """Variance component of the metric of one run, with its interval."""

    name: str
    variance: float  # of the metric (a fraction), at least 0
    share: float  # of the sum of all components, in [0, 1]; NaN if that sum is 0
    low: float  # 95 % interval of the variance; NaN for the instances and the scenes
    high: float
    moment: float  # the raw estimate, possibly below 0

    @property
    def truncated(self) -> bool:
        """Return whether the raw estimate is negative."""
        return self.moment < 0


def assign_levels(runs: Sequence[tuple[Cell, int]]) -> dict[str, Ints]:
    """Return the level of each run in each factor, (n,) each, from coarse to fine.

    Args:
        runs: cell and fine-tuning seed of each run.

    Factors that the layout cannot separate become one factor named "a + b". Example: with one generator per
    draw, the generator changes with the scenes. The interaction of generator and base is a factor if a draw
    crosses several of both. Otherwise it is part of these.
    """
    names: dict[str, list[tuple[int, ...]]] = {
        "scenes": [(cell.scenes,) for cell, _ in runs],
        "generator": [(cell.scenes, cell.generator) for cell, _ in runs],
        "base": [(cell.scenes, cell.base) for cell, _ in runs],
        "generator × base": [tuple(cell) for cell, _ in runs],
        "fine-tuning": [(*cell, seed) for cell, seed in runs],
    }
    if not any(cell.generator and cell.base for cell, _ in runs):
        del names["generator × base"]
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, keys in names.items():
        groups.setdefault(tuple(pd.factorize(pd.Series(keys))[0].tolist()), []).append(name)
    return {" + ".join(group): np.array(levels) for levels, group in groups.items()}


def quadratic_forms(levels: Factors) -> Floats:
    """Return the matrices Q for which y'Q y estimates each component, (k, n, n)."""
    incidence = [_build_incidence(codes) for codes in levels.values()]
    n = len(incidence[0])
    sums = np.stack([z / z.sum(axis=0) @ z.T for z in incidence]) - 1 / n
    expected = np.array([[np.trace(a @ z @ z.T) for z in incidence] for a in sums])
    forms: Floats = np.tensordot(np.linalg.inv(expected), sums, axes=1)
    return forms


def estimate_variances(values: Floats, levels: Factors) -> Floats:
    """Return the raw estimate of each component, possibly negative: (n,) -> (k,)."""
    estimates: Floats = np.einsum("i,kij,j->k", values, quadratic_forms(levels), values)
    return estimates


def estimate_components(
    values: Floats, levels: Factors, *, of_instances: float, seed: int
) -> list[Component]:
    """Return the components of a metric, the component of the test instances first.

    Args:
        values: the metric of each run, (n,).
        levels: from ``assign_levels``.
        of_instances: variance of the metric from the choice of instances, from ``compute_instance_variance``.
            It is part of the difference between draws of the scenes and is subtracted there.
        seed: of the simulations for the intervals.

    The interval holds the variances for which more than 2.5 % of simulated studies give an estimate at least
    as low, and more than 2.5 % one at least as high, as the observed one. The simulations use normal effects
    and the estimates of the other components. With two or three levels the interval is wide, which reflects
    how little such an estimate is worth. The scenes have no interval: it would treat the other components and
    the component of the instances, estimated from a handful of draws, as known, and would cover the truth
    less often than claimed.
    """
    estimates = estimate_variances(values, levels)
    low, high = _compute_intervals(estimates, levels, seed)
    first = next(iter(levels))
    estimates = estimates - np.array([of_instances if name == first else 0.0 for name in levels])
    named = [(INSTANCES, of_instances, np.nan, np.nan), *zip(levels, estimates, low, high, strict=True)]
    total = sum(max(moment, 0.0) for _, moment, _, _ in named)
    return [
        Component(
            name,
            max(float(moment), 0.0),
            max(float(moment), 0.0) / total if total else float("nan"),
            float(below),
            float(above),
            float(moment),
        )
        for name, moment, below, above in named
    ]


def compute_instance_variance(runs: Sequence[tuple[Cell, pd.Series]]) -> tuple[float, float]:
    """Return (variance of one run's metric from the choice of test instances, their mean number).

    Only the part that runs of the same scenes share counts: the mean covariance, over images, of the means of
    two runs of different cells, or of different seeds if a draw has one cell. Runs may share only some
    instances, because each generator fills some cells alone. The covariance is then smaller by that much,
    which is also the part that is in the spread of the scenes, from which it is subtracted. A run's own part
    belongs to the components of its models. The result is at least 0.

    Args:
        runs: cell of each run, and its hits by instance, or the difference of the hits of two compared
            models. The index is (image_id, instance_id).
    """
    variances, sizes = [], []
    for draw in sorted({cell.scenes for cell, _ in runs}):
        those = [(cell, hits.dropna()) for cell, hits in runs if cell.scenes == draw]
        names = pd.concat([hits.index.to_frame(index=False) for _, hits in those])
        # Another generator may give an instance's image another id.
        image_of = names.drop_duplicates("instance_id").set_index("instance_id")["image_id"]
        table = pd.concat([hits.droplevel("image_id") for _, hits in those], axis=1)
        centred = ((table - table.mean()) / table.count()).fillna(0.0)
        totals = centred.groupby(image_of).sum().to_numpy()
        shared = totals.T @ totals * len(totals) / max(len(totals) - 1, 1)
        cell_of = [cell for cell, _ in those]
        distinct_mask = np.array([[one != other for other in cell_of] for one in cell_of])
        distinct_mask = distinct_mask if distinct_mask.any() else ~np.eye(len(those), dtype=bool)
        variances.append(float(shared[distinct_mask].mean() if distinct_mask.any() else shared.mean()))
        sizes.append(float(table.count().mean()))
    return max(float(np.mean(variances)), 0.0), float(np.mean(sizes))


def _build_incidence(codes: Ints) -> Floats:
    """Return which run has which level, (n, levels) of 0 and 1."""
    incidence: Floats = (codes[:, None] == np.arange(codes.max() + 1)).astype(float)
    return incidence


def _compute_intervals(estimates: Floats, levels: Factors, seed: int) -> tuple[Floats, Floats]:
    """Return both ends of each component's interval by bisection; NaN for the first. (k,), (k,)."""
    rng = np.random.default_rng(seed)
    effects = np.stack(
        [rng.standard_normal((SIMULATIONS, codes.max() + 1))[:, codes] for codes in levels.values()]
    )
    forms, clipped = quadratic_forms(levels), np.maximum(estimates, 0.0)
    scale = max(clipped.sum(), 1e-12)
    low, high = np.zeros(len(estimates)), np.zeros(len(estimates))
    low[0] = high[0] = np.nan

    def compute_lower_tail(which: int, variance: float) -> float:
        """Return the share of simulated estimates at most as large as the observed one, if a component had this variance."""
        sizes = np.sqrt(np.where(np.arange(len(clipped)) == which, variance, clipped))
        values = np.tensordot(sizes, effects, axes=1)
        return float((((values @ forms[which]) * values).sum(axis=1) <= estimates[which]).mean())

    for which in range(1, len(estimates)):
        for ends, tail in ((high, (1 - LEVEL) / 2), (low, (1 + LEVEL) / 2)):
            below, above = 0.0, 1e4 * scale
            if compute_lower_tail(which, below) <= tail:
                continue
            for _ in range(HALVINGS):
                middle = np.sqrt(max(below, 1e-6 * scale) * above)
                below, above = (
                    (middle, above) if compute_lower_tail(which, middle) > tail else (below, middle)
                )
            ends[which] = above
    return low, high
