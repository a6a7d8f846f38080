"""How much of the spread of a figure each kind of luck gives: variance components by the method of moments.

The figure of a run is μ + an effect of its scenes + of its generator + of its base + … + of its fine-tuning, independent,
each with a variance of its own. The uncorrected sums of squares over the levels of each factor are set equal to what they
are expected to be (Henderson 1953, method I; Searle, Casella & McCulloch 1992, 5.3): unbiased for any layout, and the
analysis of variance where the layout is balanced. An estimate may be negative: it is shown as zero, and said.
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
INSTANCES = "instances"  # the part of the scenes' component that more test instances make smaller
Factors = Mapping[str, Ints]


class Component(NamedTuple):
    """Variance of one kind of luck in a figure of one run, with what an interval says about it."""

    name: str
    variance: float  # of the figure (a fraction), not below 0
    share: float  # of the sum of all components, in [0, 1]; NaN where that is 0
    low: float  # 95 % interval of the variance; NaN of the instances and of the scenes
    high: float
    moment: float  # the estimate as it came, perhaps below 0

    @property
    def truncated(self) -> bool:
        """Whether the estimate came out negative."""
        return self.moment < 0


def assign_levels(runs: Sequence[tuple[Cell, int]]) -> dict[str, Ints]:
    """Return the level of each run in each factor, (n,) each, coarse to fine.

    Args:
        runs: cell and seed of fine-tuning of each run.

    Factors that the layout cannot tell apart (one generator per draw: it changes with the scenes) are one, named
    "a + b". The interaction of generator and base is a factor where some draw crosses several of both; elsewhere it
    counts with these.
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
    """Return the matrices Q with y'Q y the estimate of each component, (k, n, n)."""
    incidence = [_build_incidence(codes) for codes in levels.values()]
    n = len(incidence[0])
    sums = np.stack([z / z.sum(axis=0) @ z.T for z in incidence]) - 1 / n
    expected = np.array([[np.trace(a @ z @ z.T) for z in incidence] for a in sums])
    forms: Floats = np.tensordot(np.linalg.inv(expected), sums, axes=1)
    return forms


def estimate_variances(values: Floats, levels: Factors) -> Floats:
    """Return the estimate of each component, perhaps negative: (n,) -> (k,)."""
    estimates: Floats = np.einsum("i,kij,j->k", values, quadratic_forms(levels), values)
    return estimates


def estimate_components(
    values: Floats, levels: Factors, *, of_instances: float, seed: int
) -> list[Component]:
    """Return the components of a figure, that of the choice of test instances first.

    Args:
        values: the figure of each run, (n,).
        levels: of ``factors``.
        of_instances: variance of the figure by the choice of instances, of ``instances_variance``. It is a part
            of what differs between draws of the scenes, and is taken off there.
        seed: of the simulations behind the intervals.

    The interval holds the variances with which an estimate as low, or as high, as the one found comes in more than 2.5 % of
    simulated studies with normal effects, the other components being as estimated. With two or three levels it is wide,
    and that is what such an estimate is worth. The scenes have none: it would take the other components and that of the instances
    for known, of draws of which there are a handful, and hold the truth less often than it says.
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
    """Return (variance of a figure of one run by the choice of test instances, their mean number).

    Only what runs of the same scenes have in common counts: the mean covariance, over images, of the means of two runs
    of different cells, or seeds where a draw has one cell. Where these have not all instances in common (each generator
    fills some alone), it is smaller by that much: so much of it is in the spread of the scenes, from which it is taken off.
    What is a run's own is in the components of its models. Not below 0.

    Args:
        runs: cell of each run, and its hits by instance: of the two models compared, their difference. The index
            is (image_id, instance_id).
    """
    variances, sizes = [], []
    for draw in sorted({cell.scenes for cell, _ in runs}):
        those = [(cell, hits.dropna()) for cell, hits in runs if cell.scenes == draw]
        names = pd.concat([hits.index.to_frame(index=False) for _, hits in those])
        # An instance's picture may be called differently where another generator drew it.
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
    """Return the ends of the interval of each component, found by halving; NaN of the first. (k,), (k,)."""
    rng = np.random.default_rng(seed)
    effects = np.stack(
        [rng.standard_normal((SIMULATIONS, codes.max() + 1))[:, codes] for codes in levels.values()]
    )
    forms, clipped = quadratic_forms(levels), np.maximum(estimates, 0.0)
    scale = max(clipped.sum(), 1e-12)
    low, high = np.zeros(len(estimates)), np.zeros(len(estimates))
    low[0] = high[0] = np.nan

    def compute_lower_tail(which: int, variance: float) -> float:
        """Return how often an estimate is no larger than the one found if a component had this variance."""
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
