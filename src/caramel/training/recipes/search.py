"""Which settings a variant is trained with: points of a space, measured on val, and the best of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from caramel.config.search_space import Point, draw_points, merge_point
from caramel.runtime.ray.asha import Halving
from caramel.runtime.ray.trials import TrialResult

COLUMNS = ["variant", "point", "setting", "seed", "metric", "value", "stopped", "repeatable", "chosen"]
Run = Callable[[Sequence[Point], Halving | None], list[TrialResult]]
Key = tuple[str, int, int]  # variant, place of the candidate, seed


@dataclass(frozen=True)
class AshaConfig:
    """When trials of a search end early: asynchronous successive halving.

    Attributes:
        first: checkpoints, > 0, after which the worse trials stop for the first time.
        factor: >= 2; they stop again after each time ``factor`` times as many checkpoints.
    """

    first: int
    factor: int


@dataclass(frozen=True)
class SearchConfig:
    """Which settings are tried before the training.

    Attributes:
        space: by variant, what is tried of each key, as in ``search_space.draw_points``.
        draws: of each combination of lists, > 0; None where nothing is drawn.
        seed: of the draws.
        seeds: with which each candidate is trained.
        asha: how trials end early; None: none does.
    """

    space: Mapping[str, Mapping[str, Any]]
    draws: int | None
    seed: int
    seeds: tuple[int, ...]
    asha: AshaConfig | None


class Candidate(NamedTuple):
    """A point of a space, and with it all that the variant then has of its own."""

    point: Point
    overrides: dict[str, Any]


class SearchResult(NamedTuple):
    """What was chosen, and from what.

    Attributes:
        overrides: by variant, what it has of its own with the chosen point.
        table: ``COLUMNS``, a row for each trial. point: from 1; setting: the point, as JSON; value: of the metric on
            val, of the weights that are kept; stopped: the checkpoint at which it was ended early, which the value is of, or
            missing; repeatable: whether the same is found when it is done again; chosen: of the point that is taken.
    """

    overrides: dict[str, dict[str, Any]]
    table: pd.DataFrame


def build_trial_point(variant: str, seed: int, overrides: Mapping[str, Any]) -> Point:
    """Return the point of a trial: equal settings of a variant's own and equal seeds are one trial."""
    return {"variant": variant, "seed": seed, **({"overrides": dict(overrides)} if overrides else {})}


def draw_candidates(
    search: SearchConfig, *, overrides: Mapping[str, Mapping[str, Any]], common: Mapping[str, Any]
) -> dict[str, list[Candidate]]:
    """Return by variant what is tried of it.

    Args:
        search: what is tried.
        overrides: by variant, what it has of its own beside a point.
        common: settings of all variants.
    """
    return {
        variant: [
            Candidate(point, merge_point(overrides.get(variant, {}), point, common))
            for point in draw_points(space, search.draws, seed=search.seed, name=variant)
        ]
        for variant, space in search.space.items()
    }


def run_search(
    run: Run,
    tried: Mapping[str, Sequence[Candidate]],
    *,
    seeds: Sequence[int],
    halving: Mapping[str, Halving],
    metric: str,
) -> SearchResult:
    """Run all candidates with all seeds and take of each variant the one with the best mean; of equal ones the first.

    The candidates of a variant that has a ``halving`` run with the first seed, where the worse ones end early; those that
    are left run with the others.

    Args:
        run: returns what trials gave, as ``tune_grid`` does; of one that has run before at once.
        metric: of ``contrastive.hits``, by which weights are kept.
    """
    results: dict[Key, dict[str, Any]] = {}

    def run_trials(keys: Iterable[Key], ending: Halving | None) -> None:
        keys = list(keys)
        trial_points = [
            build_trial_point(variant, seed, tried[variant][index].overrides) for variant, index, seed in keys
        ]
        results.update(zip(keys, (outcome.result for outcome in run(trial_points, ending)), strict=True))

    everything = [(variant, index) for variant, options in tried.items() for index in range(len(options))]
    order = {key: number for number, key in enumerate(everything)}
    for variant, ending in halving.items():  # one by one: values of two variants are not compared
        run_trials(((v, p, seeds[0]) for v, p in everything if v == variant), ending)
    left = [(v, p) for v, p in everything if "stopped" not in results.get((v, p, seeds[0]), {})]
    run_trials(((v, p, seed) for v, p in left for seed in seeds), None)
    means = {
        (v, p): math.fsum(_get_metric_value(results[v, p, seed], metric) for seed in seeds) / len(seeds)
        for v, p in left
    }
    best = {
        variant: max((p for v, p in left if v == variant), key=lambda p: (means[variant, p], -p))
        for variant in tried
    }
    rows = [
        {
            "variant": variant,
            "point": index + 1,
            "setting": json.dumps(tried[variant][index].point),
            "seed": seed,
            "metric": metric,
            "value": _get_metric_value(result, metric),
            "stopped": result.get("stopped", {}).get("checkpoint"),
            "repeatable": variant not in halving,
            "chosen": index == best[variant],
        }
        for (variant, index, seed), result in sorted(results.items(), key=lambda item: order[item[0][:2]])
    ]
    return SearchResult(
        {v: tried[v][index].overrides for v, index in best.items()}, pd.DataFrame(rows, columns=COLUMNS)
    )


def _get_metric_value(result: Mapping[str, Any], metric: str) -> float:
    """Return what the weights that a trial kept reach, of mixtures the one that is kept; or where it was ended."""
    if "stopped" in result:
        return float(result["stopped"][metric])
    mixed = [value for _, name, value, selected in result["mixtures"] if selected and name == metric]
    if mixed:
        return float(mixed[0])
    values = [value for _, name, value in result["curve"] if name == metric]
    return float(max(values) if result["select"] else values[-1])
